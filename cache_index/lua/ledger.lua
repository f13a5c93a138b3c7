-- Part of kvroute_v1_ledger: the functions themselves. Layouts: ledger_rows.lua.

-- c in ms for a prompt of L tokens with h cached, and the step weights of D.
local function cost(weights, at, L, h)
  local b, a_hit, a_miss, qr, t0, s = struct.unpack('<dddddd', weights, at)
  if a_miss < .1 then a_miss = .1 end
  if a_hit < 0 then a_hit = 0 end
  if h > L - 1 then h = L - 1 end
  local m = L - h
  local c = b + (a_hit * h + a_miss * m) * 1e-3
  return (c > .5 and c or .5) + qr * a_miss * 1e-3 * m * (L - m / 2),
    t0 > 1 and t0 or 1, s > .01 and s or .01
end

-- The cheapest candidate, ties at random; writes nothing.
-- E = Q + (1 + kappa * w) * c + D,  D = (O - 1) / 2 * (t0 + s * (2 n + 1))
local function choose(Q, R, T, L, random, candidates)
  local unpack_struct = struct.unpack
  local q = redis.call('GET', Q) or ''
  local rows = redis.call('GET', R) or ''
  local weights = redis.call('GET', T) or ''
  local slots = #q / 8
  -- struct.unpack also returns the next position: never math.min(struct.unpack(...)).
  local queue = { unpack_struct(doubles(slots), q) }
  local least = slots > 0 and math.min(unpack(queue, 1, slots)) or DEAD
  if least >= DEAD then return end
  local kappa = math.min(KAPPA_MAX, KAPPA_BASE + KAPPA_PER_S * least * 1e-6)
  local sum, weight = unpack_struct('<dd', weights)
  local output = weight > 0 and sum / weight or DEFAULT_OUTPUT
  local best, ties, count = DEAD, {}, 0
  for at = 1, #candidates, 14 do
    local slot, hit, w = unpack_struct('<HI4d', candidates, at)
    local queued = slot < slots and queue[slot + 1] or DEAD
    if queued < DEAD then
      local c, t0, s = cost(weights, slot * WROW + WHEAD + 1, L, hit)
      local n = unpack_struct('<d', rows, slot * ROW + 17)
      local e = queued * 1e-3 + (1 + kappa * w) * c + .5 * (output - 1) * (t0 + s * (2 * n + 1))
      if e < best - 1e-6 then
        best, count = e, 1
        ties[1], ties[2], ties[3] = slot, c, hit
      elseif e <= best + 1e-6 then
        count = count + 1
        ties[count * 3 - 2], ties[count * 3 - 1], ties[count * 3] = slot, c, hit
      end
    end
  end
  if count == 0 then return end
  local pick = (random % count) * 3
  local slot = ties[pick + 1]
  return {
    slot = slot, us = math.floor(ties[pick + 2] * 1000 + .5), hit = ties[pick + 3],
    cost = best, kappa = kappa, queued = queue[slot + 1],
    row = { unpack_struct('<dddddd', rows, slot * ROW + 1) },
  }
end

-- KEYS Q R T S; ARGV incarnation, sequence, prompt tokens, random integer, n x <HI4d slot hit w,
-- tokens (-1: the tokens that miss), blocks
-- reply <Hdddddd slot, epoch, generation, c us, E ms, kappa, tokens | FENCED DUP GAP | NOCAND
local function route(keys, argv)
  local Q, R, S = keys[1], keys[2], keys[4]
  local fault = sequence_fault(S, tonumber(argv[1]), tonumber(argv[2]))
  if fault then return fault end
  local L = tonumber(argv[3])
  local chosen = choose(Q, R, keys[3], L, tonumber(argv[4]), argv[5])
  if not chosen then return 'NOCAND' end
  local slot, us = chosen.slot, chosen.us
  local tokens, blocks = tonumber(argv[6]), tonumber(argv[7])
  if tokens < 0 then tokens = L - math.min(chosen.hit, L) end
  local epoch, gen, n, routes, t, b = unpack(chosen.row, 1, 6)
  put(Q, slot * 8, chosen.queued + us)
  put(R, slot * ROW + 16, n + 1, routes + 1, t + tokens, b + blocks)
  local at, mine = SHEAD + slot * SROW, { 0, 0, 0, 0 }
  local row = part(S, at, SROW)
  if #row == SROW then
    local g, u, o, st, sb = struct.unpack('<ddddd', row)
    if g == gen then mine = { u, o, st, sb } end
  end
  put(S, at, gen, mine[1] + us, mine[2] + 1, mine[3] + tokens, mine[4] + blocks)
  return struct.pack('<Hdddddd', slot, epoch, gen, us, chosen.cost, chosen.kappa, tokens)
end

-- KEYS Q R T P S; ARGV incarnation, sequence, n x <Hddddd slot gen us n tokens blocks, observations
-- reply: entries applied | FENCED DUP GAP. First token: (us, 0, tokens, 0); end, failure, cancel or
-- deadline: what is still open, with n = 1.
local function settle(keys, argv)
  local Q, R, S, entries, applied = keys[1], keys[2], keys[5], argv[3], 0
  local fault = sequence_fault(S, tonumber(argv[1]), tonumber(argv[2]))
  if fault then return fault end
  for at = 1, #entries, ENTRY do
    local slot, gen, us, n, tokens, blocks = struct.unpack('<Hddddd', entries, at)
    local offset = SHEAD + slot * SROW
    local mine, row = part(S, offset, SROW), part(R, slot * ROW, ROW)
    if #mine == SROW and #row == ROW then
      local g, m_us, m_n, m_tokens, m_blocks = struct.unpack('<ddddd', mine)
      local _, r_gen, r_n, routes, r_tokens, r_blocks = struct.unpack('<dddddd', row)
      if g == gen and r_gen == gen then
        -- A router can never take back more than it booked.
        us, n = math.min(us, m_us), math.min(n, m_n)
        tokens, blocks = math.min(tokens, m_tokens), math.min(blocks, m_blocks)
        if us > 0 then put(Q, slot * 8, struct.unpack('<d', part(Q, slot * 8, 8)) - us) end
        put(R, slot * ROW + 16, r_n - n, routes, r_tokens - tokens, r_blocks - blocks)
        put(S, offset + 8, m_us - us, m_n - n, m_tokens - tokens, m_blocks - blocks)
        applied = applied + 1
      end
    end
  end
  if #argv[4] > 0 then observe(R, keys[3], keys[4], argv[4]) end
  return applied
end

-- Adds sign * (us, n, tokens, blocks) to a slot whose generation still stands; whether it did.
local function add(Q, R, slot, gen, sign, us, n, tokens, blocks)
  local row, q = part(R, slot * ROW, ROW), part(Q, slot * 8, 8)
  if #row < ROW or #q < 8 then return false end
  local _, g, r_n, routes, r_tokens, r_blocks = struct.unpack('<dddddd', row)
  if g ~= gen or gen == 0 then return false end
  local queued = struct.unpack('<d', q)
  if queued >= DEAD then return false end
  put(Q, slot * 8, queued + sign * us)
  put(R, slot * ROW + 16, r_n + sign * n, routes, r_tokens + sign * tokens, r_blocks + sign * blocks)
  return true
end

local function withdraw(Q, R, S)
  local state = redis.call('GET', S)
  if not state then return end
  for at = SHEAD + 1, #state - SROW + 1, SROW do
    local gen, us, n, tokens, blocks = struct.unpack('<ddddd', state, at)
    if us ~= 0 or n ~= 0 or tokens ~= 0 or blocks ~= 0 then
      add(Q, R, (at - SHEAD - 1) / SROW, gen, -1, us, n, tokens, blocks)
    end
  end
  redis.call('DEL', S)
end

-- KEYS Q R S Z; ARGV router, ttl us, n x <Hddddd slot gen us n tokens blocks -> incarnation
-- A new session: the router's absolute state replaces whatever it had booked, in one step.
local function open(keys, argv)
  local Q, R, S, entries, now = keys[1], keys[2], keys[3], argv[3], now_us()
  local head, incarnation = part(S, 0, SHEAD), now
  if #head == SHEAD then incarnation = math.max(now, struct.unpack('<d', head) + 1) end
  withdraw(Q, R, S)
  put(S, 0, incarnation, 0)
  for at = 1, #entries, ENTRY do
    local slot, gen, us, n, tokens, blocks = struct.unpack('<Hddddd', entries, at)
    if add(Q, R, slot, gen, 1, us, n, tokens, blocks) then
      put(S, SHEAD + slot * SROW, gen, us, n, tokens, blocks)
    end
  end
  redis.call('ZADD', keys[4], text(now + argv[2]), argv[1])
  return text(incarnation)
end

-- KEYS S Z; ARGV router, incarnation, sequence, ttl us -> up to 4 routers whose session ran out
-- (the caller closes each) | FENCED DUP GAP
local function rbeat(keys, argv)
  local fault = sequence_fault(keys[1], tonumber(argv[2]), tonumber(argv[3]))
  if fault then return fault end
  local now = now_us()
  redis.call('ZADD', keys[2], text(now + argv[4]), argv[1])
  return redis.call('ZRANGEBYSCORE', keys[2], '-inf', text(now), 'LIMIT', 0, 4)
end

-- KEYS Q R S Z; ARGV router, incarnation ('': only if its session ran out) -> 1 | 0
local function close(keys, argv)
  if argv[2] == '' then
    local expiry = redis.call('ZSCORE', keys[4], argv[1])
    if not expiry or tonumber(expiry) > now_us() then return 0 end
  else
    local head = part(keys[3], 0, 8)
    if #head < 8 or struct.unpack('<d', head) ~= tonumber(argv[2]) then return 0 end
  end
  withdraw(keys[1], keys[2], keys[3])
  redis.call('ZREM', keys[4], argv[1])
  return 1
end

local function zero(Q, R, slot, epoch, queue)
  local row, gen, routes = part(R, slot * ROW, ROW), 0, 0
  if #row == ROW then
    local _, g, _, r = struct.unpack('<dddd', row)
    gen, routes = g, r
  end
  put(Q, slot * 8, queue)
  put(R, slot * ROW, epoch, math.max(now_us(), gen + 1), 0, routes, 0, 0)
end

-- Mean weights of the other live workers: what a new one starts from.
local function fleet_mean(Q, T, except)
  local q, weights = redis.call('GET', Q) or '', redis.call('GET', T)
  local mean, count = { 0, 0, 0, 0, 0, 0 }, 0
  for slot = 0, #q / 8 - 1 do
    if slot ~= except and struct.unpack('<d', q, slot * 8 + 1) < DEAD then
      local theta = { struct.unpack('<dddddd', weights, slot * WROW + WHEAD + 1) }
      count = count + 1
      for j = 1, 6 do mean[j] = mean[j] + theta[j] end
    end
  end
  for j = 1, 6 do mean[j] = count > 0 and mean[j] / count or PRIOR[j] end
  return mean
end

-- KEYS Q R T P B; ARGV slot, epoch, keep weights (1: same hardware as before) -> OK | FENCED
-- A worker (re)starts: its row is zeroed, its uncertainty reopened.
local function join(keys, argv)
  local slot, epoch, Q, T = tonumber(argv[1]), tonumber(argv[2]), keys[1], keys[3]
  local row = part(keys[2], slot * ROW, 8)
  local known = #row == 8 and struct.unpack('<d', row) or 0
  if known == epoch then return 'OK' end -- a repeated call must not zero the row again
  if known > epoch then return 'FENCED' end -- a late call of an earlier life
  local length = redis.call('STRLEN', Q)
  while length < slot * 8 do -- SETRANGE pads with zeros, which would read "alive and idle"
    put(Q, length, DEAD)
    length = length + 8
  end
  if redis.call('STRLEN', T) == 0 then put(T, 0, 0, 0) end
  local old = part(T, WHEAD + slot * WROW, WROW)
  if argv[3] ~= '1' or #old < WROW or struct.unpack('<d', old, 17) == 0 then
    put(T, WHEAD + slot * WROW, unpack(fleet_mean(Q, T, slot)))
  end
  put(keys[4], slot * PROW, unpack(UNCERTAIN))
  zero(Q, keys[2], slot, epoch, 0)
  redis.call('HDEL', keys[5], slot)
  return 'OK'
end

-- KEYS R T P -> rows reset: what was learned is forgotten, for all workers and the output length
local function reset(keys)
  local R, T, P = keys[1], keys[2], keys[3]
  local slots = redis.call('STRLEN', R) / ROW
  put(T, 0, 0, 0)
  for slot = 0, slots - 1 do
    put(T, WHEAD + slot * WROW, unpack(PRIOR))
    put(P, slot * PROW, unpack(UNCERTAIN))
  end
  return slots
end

-- KEYS Q R B; ARGV slot, epoch -> 1 | 0: a worker left or was reaped; the epoch guards a newer one
local function leave(keys, argv)
  local slot = tonumber(argv[1])
  local row = part(keys[2], slot * ROW, 8)
  if #row < 8 or struct.unpack('<d', row) ~= tonumber(argv[2]) then return 0 end
  zero(keys[1], keys[2], slot, 0, DEAD)
  redis.call('HDEL', keys[3], slot)
  return 1
end

-- KEYS Q R B; ARGV slot, epoch, queued us, running -> {us, outstanding, 1 if cleared} | FENCED
-- Corrects only what is certain: an idle worker, with no route to it since, yet booked, is a leak.
local function wbeat(keys, argv)
  local slot, Q, R, B = tonumber(argv[1]), keys[1], keys[2], keys[3]
  local row = part(R, slot * ROW, ROW)
  if #row < ROW then return 'FENCED' end
  local epoch, _, n, routes, tokens, blocks = struct.unpack('<dddddd', row)
  if epoch ~= tonumber(argv[2]) then return 'FENCED' end
  local us = struct.unpack('<d', part(Q, slot * 8, 8))
  local booked = us > 0 or n > 0 or tokens > 0 or blocks > 0
  if not booked or tonumber(argv[3]) > 0 or tonumber(argv[4]) > 0 then
    redis.call('HDEL', B, slot)
    return { us, n, 0 }
  end
  local idle, mark, beats = redis.call('HGET', B, slot), routes, 0
  if idle then mark, beats = struct.unpack('<dd', idle) end
  beats = mark == routes and beats + 1 or 1
  if beats > IDLE_BEATS then
    zero(Q, R, slot, epoch, 0)
    redis.call('HDEL', B, slot)
    return { us, n, 1 }
  end
  redis.call('HSET', B, slot, struct.pack('<dd', routes, beats))
  return { us, n, 0 }
end

-- KEYS Q R T Z -> {Q, R, T, live routers}; changes nothing
local function peek(keys)
  local live = redis.call('ZCOUNT', keys[4], text(now_us()), '+inf')
  return {
    redis.call('GET', keys[1]) or '', redis.call('GET', keys[2]) or '',
    redis.call('GET', keys[3]) or '', live,
  }
end

redis.register_function('kvroute_v1_open', open)
redis.register_function('kvroute_v1_route', route)
redis.register_function('kvroute_v1_settle', settle)
redis.register_function('kvroute_v1_rbeat', rbeat)
redis.register_function('kvroute_v1_close', close)
redis.register_function('kvroute_v1_join', join)
redis.register_function('kvroute_v1_leave', leave)
redis.register_function('kvroute_v1_wbeat', wbeat)
redis.register_function('kvroute_v1_reset', reset)
redis.register_function{
  function_name = 'kvroute_v1_peek', callback = peek, flags = { 'no-writes' },
}
