"""Where requests are sent: the contract, and the gRPC front."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from kvroute.client import Client
from kvroute.errors import KvrouteError
from kvroute.v1 import common_pb2
from loadtest.live.record import Record

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request as it goes out."""

    token_ids: list[int]
    output_tokens: int
    session: str = ""
    ends_session: bool = False
    breakpoint: int = 0
    """Prompt tokens that other requests share, as far as the client knows."""


@dataclass(frozen=True, slots=True)
class Service:
    """What the target serves. `vocabulary`: ids 0 to this can be sent."""

    model: str
    vocabulary: int
    block_size: int
    workers: int


class Target(Protocol):
    """A live front. `send` fills `record` and never raises but when it is cancelled."""

    async def __aenter__(self) -> Target: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    async def describe(self) -> Service:
        """Raises KvrouteError when nothing answers, or no model is served."""
        ...

    async def send(self, prompt: Prompt, record: Record, clock: Clock) -> None: ...


class GrpcTarget:
    """A router's `Generate`."""

    def __init__(self, address: str, policy: str = "", timeout_s: float = 600.0) -> None:
        self._client = Client(address, timeout_s=timeout_s)
        self._policy = policy

    async def __aenter__(self) -> GrpcTarget:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.close()

    async def describe(self) -> Service:
        state = await self._client.cluster_state()
        if not state.models:
            raise KvrouteError(f"the router at {self._client.address} serves no model")
        model = state.models[0]
        identity = model.identity
        return Service(
            identity.served_name, identity.vocab_size, identity.block_size, len(model.workers)
        )

    async def send(self, prompt: Prompt, record: Record, clock: Clock) -> None:
        hints = common_pb2.ReuseHints(
            session_id=prompt.session,
            end_session=prompt.ends_session,
            breakpoints=[prompt.breakpoint] if prompt.breakpoint else [],
        )
        generation = self._client.generate(
            token_ids=prompt.token_ids,
            max_tokens=prompt.output_tokens,
            ignore_eos=True,
            policy=self._policy,
            hints=hints,
        )
        try:
            async with generation:
                async for chunk in generation:
                    if chunk.token_ids:
                        record.parts.append((clock(), len(chunk.token_ids)))
        except KvrouteError as error:
            record.error = str(error) or type(error).__name__
        record.ended = clock()
        if generation.usage is not None:
            record.prompt_tokens = generation.usage.prompt_tokens
            record.output_tokens = generation.usage.completion_tokens
            record.cached_tokens = generation.usage.cached_tokens
        if generation.explain is not None:
            record.worker = generation.explain.worker_id
            record.predicted_hit = generation.explain.chosen_hit
            record.best_hit = generation.explain.best_hit
