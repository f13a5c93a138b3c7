-- Part of kvroute_v1_ledger: learning costs from the service times that workers report.

-- One step of recursive least squares: theta[at + 1 ..] towards y on x, with covariance P[1 .. D*D].
local function learn(theta, P, at, D, x, y, forget)
  local gain, den, err = {}, forget, y
  for i = 1, D do
    local sum = 0
    for j = 1, D do sum = sum + P[(i - 1) * D + j] * x[j] end
    gain[i] = sum
    den = den + x[i] * sum
    err = err - theta[at + i] * x[i]
  end
  if not (den > 0) or err ~= err then return end
  for i = 1, D do theta[at + i] = theta[at + i] + gain[i] / den * err end
  for i = 1, D do
    for j = i, D do
      local value = (P[(i - 1) * D + j] - gain[i] * gain[j] / den) / forget
      P[(i - 1) * D + j], P[(j - 1) * D + i] = value, value
    end
  end
  -- Against wind-up: scale row and column. Cutting the diagonal alone would make P indefinite.
  for i = 1, D do
    local value = P[(i - 1) * D + i]
    if value > COVARIANCE_CAP then
      local f = math.sqrt(COVARIANCE_CAP / value)
      for j = 1, D do
        P[(i - 1) * D + j] = P[(i - 1) * D + j] * f
        P[(j - 1) * D + i] = P[(j - 1) * D + i] * f
      end
    end
  end
end

-- n x <Hddddddd slot, epoch, hit, miss, prefill ms, mean batch, mean step ms, output tokens; a time
-- <= 0: no such part. Observations of another life of the worker are dropped.
local function observe(R, T, Pk, observations)
  for at = 1, #observations, 58 do
    local slot, epoch, hit, miss, prefill, batch, step, output =
      struct.unpack('<Hddddddd', observations, at)
    local row = part(R, slot * ROW, 8)
    if #row == 8 and struct.unpack('<d', row) == epoch then
      local sum, weight = struct.unpack('<dd', part(T, 0, WHEAD))
      if output > 0 then put(T, 0, sum * FORGET_OUTPUT + output, weight * FORGET_OUTPUT + 1) end
      local theta = { struct.unpack('<dddddd', part(T, WHEAD + slot * WROW, WROW)) }
      local P = { struct.unpack(doubles(15), part(Pk, slot * PROW, PROW)) }
      if prefill > 0 then
        local attention = theta[4] * math.max(.1, theta[3]) * 1e-3 * miss * (hit + miss / 2)
        learn(theta, P, 0, 3, { 1, hit * 1e-3, miss * 1e-3 }, prefill - attention, FORGET_PREFILL)
        P[14] = P[14] + 1
      end
      if step > 0 then
        local decode = { P[10], P[11], P[12], P[13] }
        learn(theta, decode, 4, 2, { 1, batch }, step, FORGET_DECODE)
        P[10], P[11], P[12], P[13], P[15] = decode[1], decode[2], decode[3], decode[4], P[15] + 1
      end
      put(T, WHEAD + slot * WROW, unpack(theta, 1, 6))
      put(Pk, slot * PROW, unpack(P, 1, 15))
    end
  end
end
