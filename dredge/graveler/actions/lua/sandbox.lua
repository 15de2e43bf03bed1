-- The world of a hook's script: parts of the standard library that reach nothing outside, and `require`.
--
-- Arguments, all from Python: write(text) · expired() · find(name) → true and the module, or false and why not.
-- Python functions answer true and their results, or false and a message.
-- Source: lakeFS pkg/actions/lua/stdlib.go, load.go, util/deep_pull.go (behaviour only).

local write, expired, find = ...

local OVERDUE = "the script has taken too long"
local error, load, pcall, xpcall, tostring, type = error, load, pcall, xpcall, tostring, type
local select, pack, unpack, concat = select, table.pack, table.unpack, table.concat
local setmetatable, rawget = setmetatable, rawget
local metatable_of, traceback, sethook = debug.getmetatable, debug.traceback, debug.sethook

-- Every so many instructions, so that an endless loop ends. A script cannot catch this: see `guarded`.
sethook(function() if expired() then error(OVERDUE, 0) end end, "", 100000)

local function lua_function(python)
  return function(...)
    local answer = pack(python(...))
    if answer[1] then return unpack(answer, 2, answer.n) end
    error(answer[2], 2)
  end
end

local env = {
  assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs, next = next, pairs = pairs,
  rawequal = rawequal, rawget = rawget, rawlen = rawlen, rawset = rawset, select = select,
  tonumber = tonumber, tostring = tostring, type = type,
  string = string, table = table, math = math, bit32 = bit32,
  debug = { traceback = traceback }, _VERSION = _VERSION,
}
env._G = env
string.dump = nil -- bytecode: loading it again can break out

-- A finalizer would run where no time limit reaches it.
function env.setmetatable(value, meta)
  if type(meta) == "table" and rawget(meta, "__gc") ~= nil then error("'__gc' is not supported", 2) end
  return setmetatable(value, meta)
end

function env.print(...)
  local texts = {}
  for i = 1, select("#", ...) do
    texts[i] = tostring((select(i, ...)))
    if type(texts[i]) ~= "string" then error("'tostring' must return a string to 'print'") end
  end
  write(concat(texts, "\t") .. "\n")
end

local function guarded(...)
  if expired() then error(OVERDUE, 0) end
  return ...
end
function env.pcall(...) return guarded(pcall(...)) end
-- Lua calls a message handler where the limit was broken, with hooks off: it would run for ever. This one runs after.
function env.xpcall(f, handler, ...)
  local answer = pack(guarded(pcall(f, ...)))
  if answer[1] then return unpack(answer, 1, answer.n) end
  return false, select(2, guarded(pcall(handler, answer[2])))
end

function env.load(chunk, name, _, ...)
  local own = env
  if select("#", ...) > 0 then own = (...) end
  return load(chunk, name, "t", own)
end

function env.collectgarbage(option)
  if option == "count" then return collectgarbage("count") end
  return 0
end

local loaded = { string = string, table = table, math = math, bit32 = bit32, debug = env.debug, _G = env }
env.package = { loaded = loaded, preload = {} }
loaded.package = env.package
loaded.hook = {
  fail = function(message)
    if type(message) ~= "string" and type(message) ~= "number" then
      error("bad argument #1 to 'fail' (string expected, got " .. type(message) .. ")", 2)
    end
    error("<HookFailure>" .. message .. "</HookFailure>", 2)
  end,
}

function env.require(name)
  if loaded[name] ~= nil then return loaded[name] end
  local preloaded = rawget(env.package.preload, name)
  if type(preloaded) == "function" then
    local made = preloaded(name)
    loaded[name] = made == nil or made
    return loaded[name]
  end
  local ok, module = find(name)
  if not ok then error(module, 2) end
  loaded[name] = module
  return module
end

local function array() return setmetatable({}, { _is_array = true }) end
env.array = array

local function is_array(value)
  local meta = metatable_of(value)
  return type(meta) == "table" and rawget(meta, "_is_array") == true
end

local function run(code, name)
  local chunk, problem = load(code, name, "t", env)
  if not chunk then return false, problem end
  return xpcall(chunk, function(message) return traceback(tostring(message), 2) end)
end

local function set(name, value) env[name] = value end

return run, set, array, is_array, lua_function
