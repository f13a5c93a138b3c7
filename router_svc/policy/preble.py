"""Preble's E2: exploit a long match, else explore by load, eviction and recompute cost (Srivatsa et
al., arXiv 2407.00023, section 3).

Load is the predicted time of everything sent to a worker in the last `window_s` seconds.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from router_svc.policy.base import Candidate, Decision, Ended, Fleet, Policy, Price, Request
from router_svc.policy.confirm import confirm, least

MAX_WORKERS = 4096
MAX_HISTORY = 65536


@dataclass(frozen=True, slots=True)
class PrebleOptions:
    """Profiled costs of one token, and the rules' constants.

    A prompt is exploited when more than `exploit_share` of it matches; a worker is overloaded above
    `imbalance` times the least loaded plus `slack_ms`.
    """

    prefill_ms_per_token: float = 0.11
    decode_ms_per_token: float = 1.0
    window_s: float = 180.0
    exploit_share: float = 0.5
    imbalance: float = 2.0
    slack_ms: float = 5000.0
    load_share: float = 0.1


class _History:
    """What a worker was sent within the window: (when, ms), and their sum."""

    __slots__ = ("entries", "total")

    def __init__(self) -> None:
        self.entries: deque[tuple[float, float]] = deque()
        self.total = 0.0

    def add(self, now: float, ms: float) -> None:
        self.entries.append((now, ms))
        self.total += ms
        if len(self.entries) > MAX_HISTORY:
            self.total -= self.entries.popleft()[1]

    def forget_before(self, when: float) -> None:
        while self.entries and self.entries[0][0] < when:
            self.total -= self.entries.popleft()[1]


class Preble(Policy):
    """A match above half of the prompt goes to the least loaded of its best owners, unless that one
    is overloaded (then to the least loaded of all); the rest where load, misses and what they evict
    cost least.
    """

    name = "preble"

    def __init__(self, options: PrebleOptions | None = None) -> None:
        self._options = options or PrebleOptions()
        self._sent: OrderedDict[str, _History] = OrderedDict()
        self._hit_share = 0.0
        self._mean_output = 32.0

    def choose(self, request: Request, fleet: Fleet, rng: Random) -> Decision:
        self._mean_output = fleet.mean_output
        candidates, options = fleet.candidates, self._options
        loads = self._loads(candidates, request.now)
        best = max(candidate.hit for candidate in candidates)
        if best > options.exploit_share * request.prompt_tokens:
            owners = [index for index, one in enumerate(candidates) if one.hit == best]
            owner = owners[least([loads[index] for index in owners], rng)]
            lightest = least(loads, rng)
            if loads[owner] > options.imbalance * loads[lightest] + options.slack_ms:
                return confirm(request, fleet, lightest, "its owners are overloaded", loads)
            return confirm(request, fleet, owner, "least loaded owner of the longest match", loads)
        costs = [
            load / len(candidates) * options.load_share
            # A miss is computed here, and evicts what others would have hit with that chance.
            + (request.prompt_tokens - one.hit)
            * options.prefill_ms_per_token
            * (1.0 + self._hit_share)
            for one, load in zip(candidates, loads, strict=True)
        ]
        return confirm(request, fleet, least(costs, rng), "cheapest to explore", costs)

    def on_book(self, request: Request, price: Price) -> None:
        options, worker_id = self._options, price.candidate.worker_id
        history = self._sent.setdefault(worker_id, _History())
        self._sent.move_to_end(worker_id)
        if len(self._sent) > MAX_WORKERS:
            self._sent.popitem(last=False)
        ms = price.miss * options.prefill_ms_per_token
        history.add(request.now, ms + self._mean_output * options.decode_ms_per_token)

    def on_end(self, ended: Ended) -> None:
        if not ended.failed:
            share = ended.hit / ended.request.prompt_tokens
            self._hit_share += 0.01 * (share - self._hit_share)

    def _loads(self, candidates: Sequence[Candidate], now: float) -> list[float]:
        loads = []
        for one in candidates:
            history = self._sent.get(one.worker_id)
            if history is None:
                loads.append(0.0)
                continue
            history.forget_before(now - self._options.window_s)
            loads.append(history.total)
        return loads
