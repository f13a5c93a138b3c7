#!lua name=kvroute_v1_ledger
-- The exact load ledger, the LBGR+ choice and the learned costs, shared by all routers of a model.
--
-- Every router owns its bookings: Redis holds their sums per router (S) and per slot (Q, R). One
-- ordered connection of a router is one session (incarnation, sequence); any call but the next one
-- changes nothing, and a router in doubt opens a new session with its absolute state. Sums are
-- integer microseconds in doubles (exact to 2^53). No clock in the hot path. Numbers are
-- little-endian doubles; slots are small dense integers.
--   Q  d per slot: booked prefill us; DEAD = slot not alive. A column of its own, so that the least
--      queue of the fleet is one unpack and one math.min
--   R  dddddd per slot: worker epoch, generation, outstanding, routes, tokens, blocks. The
--      generation changes whenever a row is zeroed and tags every booking: settlements of an older
--      one are void
--   T  dd decayed sum and weight of output lengths, then dddddd per slot: b, a_hit, a_miss (ms per
--      1000 tokens), qr (attention: q = qr * a_miss / 1000), t0, s
--   P  15 d per slot: RLS covariances 3x3 (prefill) and 2x2 (decode), two counts
--   S  one per router: dd incarnation, last sequence, then ddddd per slot: generation, us,
--      outstanding, tokens, blocks. Never give it a TTL: the sums would keep its share for ever
--   Z  zset router -> session expiry us
--   B  hash slot -> dd routes at the last idle beat, idle beats
-- Invariant after every call: Q and R of a slot are the sums over all S rows of R's generation.

local DEAD = 1e300
local KAPPA_BASE, KAPPA_PER_S, KAPPA_MAX = 3, 10, 16
local FORGET_PREFILL, FORGET_DECODE, FORGET_OUTPUT = .998, .995, .99
local COVARIANCE_CAP = 1e6
local IDLE_BEATS = 3
local PRIOR = { 2, 0, 110, 3.2e-5, 20, .3 } -- only if no live worker can lend its weights
local UNCERTAIN = { 1, 0, 0, 0, 1, 0, 0, 0, 400, 100, 0, 0, 1, 0, 0 } -- P of nothing learned yet
local DEFAULT_OUTPUT = 32
local ROW, SROW, SHEAD, WROW, WHEAD, PROW = 48, 40, 16, 48, 16, 120
local ENTRY = 42 -- <Hddddd

local formats = {}
local function doubles(n)
  local found = formats[n]
  if not found then
    found = '<' .. string.rep('d', n)
    formats[n] = found
  end
  return found
end

local function now_us()
  local t = redis.call('TIME')
  return t[1] * 1e6 + t[2]
end

local function text(number)
  return string.format('%.0f', number)
end

local function part(key, offset, length)
  return redis.call('GETRANGE', key, offset, offset + length - 1)
end

local function put(key, offset, ...)
  redis.call('SETRANGE', key, offset, struct.pack(doubles(select('#', ...)), ...))
end

-- Whether this call is the next one of the session; a fault means loss, duplicate or rollback.
local function sequence_fault(S, incarnation, seq)
  local head = part(S, 0, SHEAD)
  if #head < SHEAD then return 'FENCED' end
  local inc, last = struct.unpack('<dd', head)
  if inc ~= incarnation then return 'FENCED' end
  if seq <= last then return 'DUP' end
  if seq > last + 1 then return 'GAP' end
  put(S, 8, seq)
end
