-- For MoonGen: receives from its first port for FLOWATCH_SECONDS seconds, frees every frame, and writes
-- the frames per second to the file FLOWATCH_RESULT.
local moon = require "libmoon"
local device = require "device"
local memory = require "memory"

function master()
    local port = device.config { port = 0, rxQueues = 1 }
    device.waitForLinks()
    moon.startTask("receive", port:getRxQueue(0))
    moon.waitForTasks()
end

function receive(queue)
    local seconds = tonumber(os.getenv("FLOWATCH_SECONDS"))
    local frames, count = memory.bufArray(), 0
    local begun = moon.getTime()
    local passed = 0
    while moon.running() and passed < seconds do
        local received = queue:tryRecv(frames, 100)
        frames:free(received)
        count = count + received
        passed = moon.getTime() - begun
    end
    local result = assert(io.open(os.getenv("FLOWATCH_RESULT"), "w"))
    result:write(string.format("%.0f\n", count / passed))
    result:close()
end
