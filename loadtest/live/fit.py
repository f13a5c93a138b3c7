"""A cost profile fitted to what a real worker reports: least squares on service times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kvroute.errors import KvrouteError
from loadtest.sim.profile import Profile

SMALLEST = 1e-9
"""Fitted costs are kept positive: a cost that noise made negative would be paid out in time."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One request's service times as its worker reported them. Tokens; ms; `context` is the mean
    number of tokens in each running request's cache while it decoded.
    """

    hit: int
    miss: int
    prefill_ms: float
    batch: float = 0.0
    step_ms: float = 0.0
    context: float = 0.0


def fit_profile(probes: Sequence[Probe], base: Profile | None = None) -> Profile:
    """The profile whose predictions are nearest to `probes`; `base` gives what cannot be seen.

    Prefill: idle_step + prefill * miss + attention * miss * (hit + miss / 2). Decode: step + decode
    * batch + kv * batch * context, the last only where contexts differ.

    Raises:
        KvrouteError: fewer than three different prompts, or nothing decoded.
    """
    prompts = {(probe.hit, probe.miss) for probe in probes}
    decodes = [probe for probe in probes if probe.step_ms > 0]
    if len(prompts) < 3 or not decodes:
        raise KvrouteError("a profile needs three different prompts and some decoding")
    prefill = least_squares(
        [(1.0, float(p.miss), p.miss * (p.hit + p.miss / 2.0)) for p in probes],
        [p.prefill_ms for p in probes],
    )
    decode = least_squares(
        [(1.0, p.batch, p.batch * p.context) for p in decodes], [p.step_ms for p in decodes]
    )
    return replace(
        base or Profile(),
        idle_step_ms=max(SMALLEST, prefill[0]),
        prefill_ms=max(SMALLEST, prefill[1]),
        attention_ms=max(SMALLEST, prefill[2]),
        step_ms=max(SMALLEST, decode[0]),
        decode_ms=max(SMALLEST, decode[1]),
        kv_ms=max(SMALLEST, decode[2]),
    )


def least_squares(
    rows: Sequence[tuple[float, ...]], values: Sequence[float], ridge: float = 1e-9
) -> list[float]:
    """Coefficients x with the least |rows x - values|; columns are scaled first, and a small ridge
    keeps columns that never vary at zero instead of failing.
    """
    size = len(rows[0])
    scale = [max(abs(row[i]) for row in rows) or 1.0 for i in range(size)]
    scaled = [[row[i] / scale[i] for i in range(size)] for row in rows]
    matrix = [
        [sum(row[i] * row[j] for row in scaled) + (ridge * len(rows) if i == j else 0.0)
         for j in range(size)]
        + [sum(row[i] * value for row, value in zip(scaled, values, strict=True))]
        for i in range(size)
    ]  # fmt: skip
    for column in range(size):
        pivot = max(range(column, size), key=lambda line: abs(matrix[line][column]))
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        head = matrix[column][column]
        matrix[column] = [entry / head for entry in matrix[column]]
        for line in range(size):
            if line != column:
                factor = matrix[line][column]
                matrix[line] = [
                    a - factor * b for a, b in zip(matrix[line], matrix[column], strict=True)
                ]
    return [matrix[i][size] / scale[i] for i in range(size)]
