"""Chooses one token per row: greedy, or by inverse transform of one random number.

The candidates are cut in the usual order: temperature, top-k, top-p (over what top-k left), min-p
(relative to the best).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kvroute.errors import KvrouteError
from worker_svc.base import Sampling, TokenLogprobs
from worker_svc.engine.base import Pick, Picked, RowResult
from worker_svc.sampling.adjust import adjust, needs_adjusting
from worker_svc.sampling.uniform import uniform

_FIRST_LOOK = 256
"""Tokens sorted first for top-p: a nucleus is rarely larger, and sorting a whole vocabulary costs
milliseconds.
"""


def choose(logits: torch.Tensor, picks: Sequence[Pick]) -> list[RowResult]:
    """logits (rows, vocab) float32, one row per pick. A row that is not finite fails alone."""
    raw = logits
    rows = [
        adjust(row, pick) if needs_adjusting(pick) else row
        for row, pick in zip(logits, picks, strict=True)
    ]
    if any(needs_adjusting(pick) for pick in picks):
        logits = torch.stack(rows)
    best, tokens = logits.max(-1)
    finite, greedy = torch.isfinite(best).tolist(), tokens.tolist()
    results: list[RowResult] = []
    for index, pick in enumerate(picks):
        if not finite[index]:
            results.append(
                KvrouteError("the model computed no finite logits for this request (NaN)")
            )
        elif pick.sampling.temperature <= 0:
            results.append(_picked(greedy[index], raw[index], pick.sampling))
        else:
            number = uniform(pick.sampling.seed, len(pick.tokens))
            token = sample(logits[index], pick.sampling, number)
            results.append(_picked(token, raw[index], pick.sampling))
    return results


def _picked(token: int, logits: torch.Tensor, sampling: Sampling) -> Picked:
    """`logits` (vocab,) as the model gave them."""
    if sampling.logprobs is None:
        return Picked(token)
    values = logits.log_softmax(0)
    best, tokens = values.topk(min(sampling.logprobs, values.shape[0]))
    top = tuple(zip(tokens.tolist(), best.tolist(), strict=True))
    return Picked(token, TokenLogprobs(token, float(values[token]), top))


def sample(logits: torch.Tensor, sampling: Sampling, number: float) -> int:
    """logits (vocab,), `number` in [0, 1) -> token id. Pure."""
    probabilities, tokens = _candidates(logits / sampling.temperature, sampling)
    if sampling.min_p > 0:
        probabilities = probabilities.masked_fill(
            probabilities < sampling.min_p * probabilities.max(), 0.0
        )
    # In double precision: a float32 running sum over a vocabulary drifts by more than small
    # probabilities.
    total = probabilities.double().cumsum(0)
    at = int(torch.searchsorted(total, number * total[-1], right=True))
    at = min(at, probabilities.shape[0] - 1)
    while at and probabilities[at] == 0:
        at -= 1
    return at if tokens is None else int(tokens[at])


def _candidates(
    logits: torch.Tensor, sampling: Sampling
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Probabilities after top-k and top-p, and the token of each (None: in vocabulary order)."""
    vocab = logits.shape[0]
    if sampling.top_k and sampling.top_k < vocab:
        values, tokens = logits.topk(sampling.top_k)
        return _nucleus(values.softmax(0), sampling.top_p), tokens
    probabilities = logits.softmax(0)
    if sampling.top_p >= 1:
        return probabilities, None
    values, tokens = probabilities.topk(min(vocab, _FIRST_LOOK))
    if float(values.sum()) < sampling.top_p:
        values, tokens = probabilities.sort(descending=True)
    return _nucleus(values, sampling.top_p), tokens


def _nucleus(probabilities: torch.Tensor, top_p: float) -> torch.Tensor:
    """Sorted probabilities, those behind the smallest prefix that reaches `top_p` set to zero."""
    if top_p >= 1:
        return probabilities
    before = probabilities.cumsum(0) - probabilities
    return probabilities.masked_fill(before >= max(top_p, 1e-9), 0.0)
