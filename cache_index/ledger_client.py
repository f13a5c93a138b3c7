"""stub"""

from __future__ import annotations

from collections.abc import Sequence

from cache_index.base import RouterId
from cache_index.costs import Candidate, LedgerState
from cache_index.ledger import Booking, ServiceTimes


class LedgerClient:
    def __init__(
        self,
        redis_url: str,
        served_name: str,
        router_id: RouterId,
        *,
        session_ttl_s: float = 1.5,
    ) -> None:
        raise NotImplementedError

    available: bool

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def book(
        self,
        prompt_tokens: int,
        candidates: Sequence[Candidate],
        *,
        tokens: int | None = None,
        blocks: int = 0,
        deadline_s: float = 600.0,
    ) -> Booking:
        """`tokens` None: the chosen candidate's missing tokens. Raises NoCandidate or Unavailable."""
        raise NotImplementedError

    def book_local(
        self,
        prompt_tokens: int,
        candidates: Sequence[Candidate],
        *,
        tokens: int | None = None,
        blocks: int = 0,
        deadline_s: float = 600.0,
    ) -> Booking:
        """Same from local knowledge, without Redis. Raises NoCandidate."""
        raise NotImplementedError

    def first_token(self, booking: Booking) -> None: ...

    def finish(self, booking: Booking, service: ServiceTimes | None = None) -> bool:
        raise NotImplementedError

    async def peek(self) -> LedgerState:
        raise NotImplementedError

    def local_state(self) -> LedgerState:
        raise NotImplementedError
