-- For pktgen-DPDK, which receives on its own: writes the rate of its first port, frames a second, as it
-- tells it each second, into the file that FLOWATCH_RESULT names, for as many seconds as
-- FLOWATCH_SECONDS says.
pktgen.screen("off")
-- Its first figure is of a part of a second.
pktgen.delay(2200)
local result = assert(io.open(os.getenv("FLOWATCH_RESULT"), "w"))
for _ = 1, math.max(1, math.ceil(tonumber(os.getenv("FLOWATCH_SECONDS")))) do
    pktgen.delay(1000)
    result:write(string.format("%.0f\n", pktgen.portStats("all", "rate")[0].pkts_rx))
end
result:close()
pktgen.quit()
