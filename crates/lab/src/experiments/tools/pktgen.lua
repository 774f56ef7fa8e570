-- For pktgen-DPDK, which receives by itself: writes the rate of its first port in frames per second, once
-- per second for FLOWATCH_SECONDS seconds, to the file FLOWATCH_RESULT.
pktgen.screen("off")
-- The first rate covers only part of a second.
pktgen.delay(2200)
local result = assert(io.open(os.getenv("FLOWATCH_RESULT"), "w"))
for _ = 1, math.max(1, math.ceil(tonumber(os.getenv("FLOWATCH_SECONDS")))) do
    pktgen.delay(1000)
    result:write(string.format("%.0f\n", pktgen.portStats("all", "rate")[0].pkts_rx))
end
result:close()
pktgen.quit()
