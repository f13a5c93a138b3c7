"""A simulated router: what the real one gives a policy, and nothing else.

It knows the prompt, the index, the ledger and the learned costs; never the length of the answer,
the worker's queue or the future. A policy that asks for more gets `UnknowableError`.
"""

from __future__ import annotations

from random import Random

from kvroute.errors import KvrouteError
from loadtest.sim.index import Index
from loadtest.sim.job import Job
from loadtest.sim.learner import Learner
from loadtest.sim.ledger import Change, Ledger
from router_svc.policy.arrivals import ArrivalCounter
from router_svc.policy.base import Candidate, Decision, Ended, Fleet, Policy, Request
from router_svc.policy.hashing import prefix_key

MAX_TOKENS = 1024
"""What clients ask for; answers end earlier, and no router knows when."""


class UnknowableError(KvrouteError):
    """The policy reads something that a real router cannot know."""


class Router:
    """One of the routers in front of the fleet."""

    def __init__(
        self,
        number: int,
        policy: Policy,
        indexes: list[Index],
        ledger: Ledger,
        learner: Learner,
        block_size: int,
        routers: int,
        seed: int,
    ) -> None:
        self.indexes = indexes
        self.policy = policy
        self._number = number
        self._ledger = ledger
        self._learner = learner
        self._size = block_size
        self._routers = routers
        self._arrivals = ArrivalCounter()
        self._rng = Random(f"router/{number}/{seed}")
        self._names = [f"worker-{worker:04d}" for worker in range(len(indexes))]

    def route(self, job: Job, alive: list[int], now: float) -> int:
        """Chooses one of `alive` and books it."""
        call = job.call
        prompt = call.blocks[: call.prompt_blocks]
        hits = {worker: self.indexes[worker].match(prompt, now) for worker in alive}
        held = max(hits.values())
        reuse = self._arrivals.arrive_prompt(prompt, held, now / 1000.0) * self._routers
        request = Request(
            call.prompt_tokens,
            MAX_TOKENS,
            reuse,
            self._size,
            prefix_key(prompt, self._size),
            now / 1000.0,
        )
        candidates = self._candidates(alive, hits, call.prompt_tokens, now)
        decision = self._choose(request, Fleet(candidates, self._learner.mean_output))
        price = decision.chosen
        job.worker, job.request, job.price = price.candidate.slot, request, price
        job.booked_tokens, job.booked_ms = price.miss, price.prefill_ms
        job.booked_blocks = -(
            -(call.prompt_tokens + round(self._learner.mean_output)) // self._size
        )
        self.policy.on_book(request, price)
        self.indexes[job.worker].sent(prompt)
        self._change(job, now, 1, booked=True)
        return job.worker

    def first_token(self, job: Job, now: float) -> None:
        """The prompt is computed: its share leaves the queue."""
        self.indexes[job.worker].computed(job.call.blocks[: job.call.prompt_blocks])
        self._change(job, now, 0, booked=False)

    def ended(self, job: Job, now: float, *, failed: bool = False) -> None:
        """The request is over, or lost with its worker."""
        if job.booked_tokens >= 0:
            self.first_token(job, now)
        change = Change(job.worker, outstanding=-1, blocks=-job.booked_blocks)
        self._ledger.change(self._number, change, now)
        assert job.request is not None and job.price is not None
        self.policy.on_end(
            Ended(job.request, job.price, now / 1000.0, job.hit, job.call.output_tokens, failed)
        )

    def _change(self, job: Job, now: float, outstanding: int, *, booked: bool) -> None:
        sign = 1 if booked else -1
        change = Change(
            job.worker,
            outstanding,
            sign,
            sign * job.booked_tokens,
            sign * job.booked_ms,
            job.booked_blocks if booked else 0,
        )
        self._ledger.change(self._number, change, now)
        if not booked:
            job.booked_tokens = -1

    def _candidates(
        self, alive: list[int], hits: dict[int, int], prompt: int, now: float
    ) -> list[Candidate]:
        rows, costs = self._ledger.rows(self._number, now), self._learner.costs
        size, names, most = self._size, self._names, prompt - 1
        found = []
        for worker in alive:
            row = rows[worker]
            found.append(
                Candidate(
                    names[worker],
                    worker,
                    min(hits[worker] * size, most),
                    row.queue_ms,
                    row.outstanding,
                    costs[worker],
                    row.waiting,
                    row.tokens,
                    row.blocks,
                )
            )
        return found

    def _choose(self, request: Request, fleet: Fleet) -> Decision:
        try:
            return self.policy.choose(request, fleet, self._rng)
        except AttributeError as error:
            if isinstance(error.obj, (Request, Candidate, Fleet)):
                raise UnknowableError(
                    f"policy {self.policy.name} asks for {type(error.obj).__name__}.{error.name},"
                    " which no router can know"
                ) from None
            raise
