#!lua name=kvroute_v1_index
-- The prefix index in Redis: registry, leases, exact block sets and the stream of their changes.
-- Every function names all its keys (one hash tag, hence one Cluster slot) and is atomic.
--   reg   hash    worker id -> {"slot":..,"epoch":"..","worker":{description}}
--   meta  hash    e epoch, s last sequence, b beats, n and x count and digest of the set as of s;
--                 o what the worker's cache held at a beat, "epoch sequence count digest", if
--                 Redis had been told all of it; lives as long as the worker's lease
--   set   set     8-byte keys: what the worker's cache holds as of s
--   ev    stream  w worker, e epoch, s sequence, k kind, and
--                 r registered (d registry value): starts empty, also after a flush
--                 u updated    (d registry value): the description changed, no sequence of its own
--                 d delta      (a added, r removed, t tier): removed first, then added
--                 x gone
-- An epoch is the time of registration in microseconds and never used twice; it travels as text,
-- because cjson writes 14 digits only. (epoch, s) fences: a worker that was declared dead, paused or
-- rolled back learns it from its next call, and registers anew: the only way to recover.

local MAX_ARGS = 2000 -- unpack() has a limited stack

local function now_us()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

local function text(number)
  return string.format('%.0f', number)
end

-- SADD / SREM of packed 8-byte members.
local function change(command, key, packed)
  local at = 1
  while at <= #packed do
    local args = {}
    for i = at, math.min(at + 8 * MAX_ARGS, #packed + 1) - 1, 8 do
      args[#args + 1] = string.sub(packed, i, i + 7)
    end
    redis.call(command, key, unpack(args))
    at = at + 8 * MAX_ARGS
  end
end

-- The description stays the text that the worker sent: cjson would turn its empty lists into objects.
local function registry_value(slot, epoch, description)
  return '{"slot":' .. slot .. ',"epoch":"' .. epoch .. '","worker":' .. description .. '}'
end

-- First field in which two identities differ: field, theirs, ours.
local function difference(theirs, ours)
  local fields = {}
  for field in pairs(theirs) do fields[#fields + 1] = field end
  for field in pairs(ours) do
    if theirs[field] == nil then fields[#fields + 1] = field end
  end
  table.sort(fields)
  for _, field in ipairs(fields) do
    if theirs[field] ~= ours[field] then
      return field, tostring(theirs[field]), tostring(ours[field])
    end
  end
end

-- KEYS reg meta set ev; ARGV worker, description, lease ms, stream length, epoch floor
-- reply {'OK', epoch, slot} | {'MISMATCH', field, theirs, ours, the other worker}
-- Takes the lowest free slot, or keeps its own. Starts empty with sequence 0.
local function register(keys, argv)
  local worker, ours = argv[1], cjson.decode(argv[2]).identity
  local used, slot, floor = {}, nil, tonumber(argv[5])
  local all = redis.call('HGETALL', keys[1])
  for i = 1, #all, 2 do
    local entry = cjson.decode(all[i + 1])
    if all[i] == worker then
      slot, floor = entry.slot, math.max(floor, tonumber(entry.epoch) + 1)
    else
      local field, theirs, mine = difference(entry.worker.identity, ours)
      if field then return { 'MISMATCH', field, theirs, mine, all[i] } end
      used[entry.slot] = true
    end
  end
  if not slot then
    slot = 0
    while used[slot] do slot = slot + 1 end
  end
  local epoch = text(math.max(now_us(), floor))
  local value = registry_value(slot, epoch, argv[2])
  redis.call('HSET', keys[1], worker, value)
  redis.call('DEL', keys[2], keys[3])
  redis.call('HSET', keys[2], 'e', epoch, 's', 0, 'b', 0, 'n', 0, 'x', '0')
  redis.call('PEXPIRE', keys[2], argv[3])
  redis.call('XADD', keys[4], 'MAXLEN', '~', argv[4], '*',
    'w', worker, 'e', epoch, 's', 0, 'k', 'r', 'd', value)
  return { 'OK', epoch, slot }
end

-- KEYS reg meta ev; ARGV worker, epoch, description, stream length -> OK | FENCED
-- Replaces the description (draining, adapters); the identity cannot change in one epoch.
local function update(keys, argv)
  local old = redis.call('HGET', keys[1], argv[1])
  if not old or redis.call('HGET', keys[2], 'e') ~= argv[2] then return 'FENCED' end
  local entry = cjson.decode(old)
  if entry.epoch ~= argv[2] then return 'FENCED' end
  if difference(entry.worker.identity, cjson.decode(argv[3]).identity) then return 'FENCED' end
  local value = registry_value(entry.slot, argv[2], argv[3])
  redis.call('HSET', keys[1], argv[1], value)
  redis.call('XADD', keys[3], 'MAXLEN', '~', argv[4], '*',
    'w', argv[1], 'e', argv[2], 's', 0, 'k', 'u', 'd', value)
  return 'OK'
end

local function sequence_fault(meta, epoch, seq)
  local found = redis.call('HMGET', meta, 'e', 's')
  if found[1] ~= epoch then return 'FENCED' end -- also when there is none
  local last = tonumber(found[2])
  if seq <= last then return 'DUP' end
  if seq ~= last + 1 then return 'GAP' end
end

-- KEYS meta set ev; ARGV worker, epoch, sequence, lease ms, stream length, added, removed, count and
-- digest of the set afterwards, tier -> OK | DUP | FENCED | GAP
local function publish(keys, argv)
  local fault = sequence_fault(keys[1], argv[2], tonumber(argv[3]))
  if fault then return fault end
  change('SREM', keys[2], argv[7])
  change('SADD', keys[2], argv[6])
  redis.call('XADD', keys[3], 'MAXLEN', '~', argv[5], '*', 'w', argv[1], 'e', argv[2],
    's', argv[3], 'k', 'd', 'a', argv[6], 'r', argv[7], 't', argv[10])
  redis.call('HSET', keys[1], 's', argv[3], 'n', argv[8], 'x', argv[9])
  redis.call('PEXPIRE', keys[1], argv[4])
  redis.call('PEXPIRE', keys[2], argv[4])
  return 'OK'
end

-- KEYS reg meta set ev R; ARGV worker, epoch, sequence, lease ms, stream length
-- reply {'OK', new epoch} | {'DUP' | 'FENCED' | 'GAP'}
-- The cache was emptied: a new epoch that starts with nothing. Bookings stay, so the ledger's row
-- only learns the new epoch.
local function flush(keys, argv)
  local worker, old = argv[1], redis.call('HGET', keys[1], argv[1])
  local fault = sequence_fault(keys[2], argv[2], tonumber(argv[3]))
  if fault then return { fault } end
  local entry = old and cjson.decode(old)
  if not entry or entry.epoch ~= argv[2] then return { 'FENCED' } end
  local epoch = text(math.max(now_us(), tonumber(argv[2]) + 1))
  -- Only the two numbers in front of the description change.
  local value = registry_value(entry.slot, epoch, string.match(old, '"worker":(.*)}$'))
  redis.call('HSET', keys[1], worker, value)
  redis.call('DEL', keys[3])
  redis.call('HSET', keys[2], 'e', epoch, 's', 0, 'n', 0, 'x', '0')
  redis.call('PEXPIRE', keys[2], argv[4])
  local row = redis.call('GETRANGE', keys[5], entry.slot * 48, entry.slot * 48 + 7)
  if #row == 8 and struct.unpack('<d', row) == tonumber(argv[2]) then
    redis.call('SETRANGE', keys[5], entry.slot * 48, struct.pack('<d', tonumber(epoch)))
  end
  redis.call('XADD', keys[4], 'MAXLEN', '~', argv[5], '*',
    'w', worker, 'e', epoch, 's', 0, 'k', 'r', 'd', value)
  return { 'OK', epoch }
end

-- KEYS reg meta set; ARGV worker, epoch, sequence, lease ms, count and digest of the cache ('': some
-- of it was not published yet) -> OK | FENCED | GAP
-- Extends the lease. Checks the sequence too: a worker with nothing to say must still notice that
-- Redis was rolled back. Checks the size of the set: it may have been evicted or cut by others.
local function beat(keys, argv)
  local meta = redis.call('HMGET', keys[2], 'e', 's', 'n')
  if meta[1] ~= argv[2] or redis.call('HEXISTS', keys[1], argv[1]) == 0 then return 'FENCED' end
  if meta[2] ~= argv[3] or redis.call('SCARD', keys[3]) ~= tonumber(meta[3]) then return 'GAP' end
  redis.call('HINCRBY', keys[2], 'b', 1)
  if argv[5] ~= '' then
    redis.call('HSET', keys[2], 'o', table.concat({ argv[2], argv[3], argv[5], argv[6] }, ' '))
  end
  redis.call('PEXPIRE', keys[2], argv[4])
  redis.call('PEXPIRE', keys[3], argv[4])
  return 'OK'
end

local function remove(keys, worker, epoch, length)
  redis.call('HDEL', keys[1], worker)
  redis.call('DEL', keys[2], keys[3])
  redis.call('XADD', keys[4], 'MAXLEN', '~', length, '*', 'w', worker, 'e', epoch, 's', 0, 'k', 'x')
end

-- KEYS reg meta set ev; ARGV worker, epoch seen, stream length -> 1 | 0
-- Anybody may remove a worker whose lease ran out; the epoch guards one that has just come back.
local function reap(keys, argv)
  local old = redis.call('HGET', keys[1], argv[1])
  if not old or redis.call('EXISTS', keys[2]) == 1 then return 0 end
  if cjson.decode(old).epoch ~= argv[2] then return 0 end
  remove(keys, argv[1], argv[2], argv[3])
  return 1
end

-- KEYS reg meta set ev; ARGV worker, epoch, stream length -> 1 | 0: a worker leaves on its own
local function withdraw(keys, argv)
  local old = redis.call('HGET', keys[1], argv[1])
  if not old or cjson.decode(old).epoch ~= argv[2] then return 0 end
  remove(keys, argv[1], argv[2], argv[3])
  return 1
end

-- KEYS gen ev reg R -> {generation, id of the newest event, registry flat, R}: one moment, for audits
local function standing(keys)
  local newest = redis.call('XREVRANGE', keys[2], '+', '-', 'COUNT', 1)
  return {
    redis.call('GET', keys[1]) or '', newest[1] and newest[1][1] or '0-0',
    redis.call('HGETALL', keys[3]), redis.call('GET', keys[4]) or '',
  }
end

-- KEYS meta... -> for each {e, s, b, n, x, o}, or {} if the lease ran out
local function marks(keys)
  local found = {}
  for i, meta in ipairs(keys) do
    local mark = redis.call('HMGET', meta, 'e', 's', 'b', 'n', 'x', 'o')
    found[i] = mark[1] and mark or {}
  end
  return found
end

-- KEYS models [reg]; ARGV served name, M -> 1 | 0
-- The last worker left: the name goes, unless it stands for another key scheme by now. In a Cluster
-- reg lies in another slot than models; the caller looked at it just before, and a worker that came
-- meanwhile says the name again with its next beat.
local function forget(keys, argv)
  if keys[2] and redis.call('EXISTS', keys[2]) == 1 then return 0 end
  if redis.call('HGET', keys[1], argv[1]) ~= argv[2] then return 0 end
  return redis.call('HDEL', keys[1], argv[1])
end

redis.register_function('kvroute_v1_register', register)
redis.register_function('kvroute_v1_update', update)
redis.register_function('kvroute_v1_publish', publish)
redis.register_function('kvroute_v1_flush', flush)
redis.register_function('kvroute_v1_beat', beat)
redis.register_function('kvroute_v1_reap', reap)
redis.register_function('kvroute_v1_withdraw', withdraw)
redis.register_function('kvroute_v1_forget', forget)
redis.register_function{
  function_name = 'kvroute_v1_standing', callback = standing, flags = { 'no-writes' },
}
redis.register_function{
  function_name = 'kvroute_v1_marks', callback = marks, flags = { 'no-writes' },
}
