"""A booked place in the load ledger: held while a request runs, given back whatever happens."""

from __future__ import annotations

from types import TracebackType

from cache_index.costs import Candidate
from cache_index.ledger import Booking, ServiceTimes
from cache_index.ledger_client import LedgerClient
from kvroute.errors import Unavailable
from kvroute.v1 import worker_pb2
from router_svc.policy.base import Decision, Price


class Held:
    """`with held:` around a request; leaving settles the booking, once, with the service times if
    there are any.
    """

    def __init__(
        self, ledger: LedgerClient, booking: Booking, price: Price, *, degraded: bool
    ) -> None:
        self.price = price
        self.degraded = degraded
        self._ledger = ledger
        self._booking = booking
        self._service: ServiceTimes | None = None

    def first_token(self) -> None:
        """The prompt is computed: its share leaves the queue."""
        self._ledger.first_token(self._booking)

    def served(self, end: worker_pb2.End) -> None:
        """Notes what the worker reported, for the learner. Failed and preempted requests teach
        nothing.
        """
        if end.preemptions or not end.HasField("timing") or end.code:
            return
        usage, timing = end.usage, end.timing
        self._service = ServiceTimes(
            hit=usage.cached_tokens,
            miss=usage.prompt_tokens - usage.cached_tokens,
            prefill_ms=timing.prefill_ms,
            batch_size=timing.batch_size,
            step_ms=timing.step_ms,
            output_tokens=usage.completion_tokens,
        )

    def __enter__(self) -> Held:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ledger.finish(self._booking, self._service if error is None else None)


async def book(
    ledger: LedgerClient,
    decision: Decision,
    *,
    prompt_tokens: int,
    max_tokens: int,
    block_size: int,
    deadline_s: float,
) -> Held:
    """Books one worker of the decision's shortlist, chosen by the ledger in the same atomic call:
    until the first token its predicted prefill and the tokens it misses, until the end its blocks.

    With Redis away, or emptied so that no worker is back in the ledger yet, the policy's own choice
    is booked in this router's memory, and the result says `degraded`: the worker answers on its
    link, which is all that a request needs.

    Raises:
        Unavailable: this router's own books know no such worker either.
    """
    by_slot = {price.candidate.slot: price for price in decision.shortlist}
    blocks = -(-(prompt_tokens + max_tokens) // block_size)
    try:
        booking = await ledger.book(
            prompt_tokens,
            [
                Candidate(slot, price.candidate.hit, price.miss_weight)
                for slot, price in by_slot.items()
            ],
            blocks=blocks,
            deadline_s=deadline_s,
        )
        return Held(ledger, booking, by_slot[booking.slot], degraded=False)
    except Unavailable:
        chosen = decision.chosen
        booking = ledger.book_local(
            prompt_tokens,
            [Candidate(chosen.candidate.slot, chosen.candidate.hit, chosen.miss_weight)],
            blocks=blocks,
            deadline_s=deadline_s,
        )
        return Held(ledger, booking, chosen, degraded=True)
