"""The cost of NVIDIA Dynamo's KV router: prefill blocks against active decode blocks."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from router_svc.policy.base import Decision, Fleet, Policy, Request
from router_svc.policy.confirm import cheapest


@dataclass(frozen=True, slots=True)
class DynamoOptions:
    """`overlap_weight`: what a block to prefill costs against an active block. Temperature is 0."""

    overlap_weight: float = 1.0


class Dynamo(Policy):
    """`overlap_weight * prefill_blocks + decode_blocks`, lowest wins.

    Prefill blocks: those queued on the worker, plus the request's misses there. Decode blocks:
    those of all outstanding requests, plus the request's own.
    """

    name = "dynamo"

    def __init__(self, options: DynamoOptions | None = None) -> None:
        self._options = options or DynamoOptions()

    def choose(self, request: Request, fleet: Fleet, rng: Random) -> Decision:
        size, length = request.block_size, request.prompt_tokens
        costs = [
            self._options.overlap_weight * (candidate.queued_tokens + length - candidate.hit) / size
            + candidate.active_blocks
            + length // size
            for candidate in fleet.candidates
        ]
        return cheapest(request, fleet, costs, rng, "fewest prefill and decode blocks")
