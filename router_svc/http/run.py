"""Runs the answers of one HTTP request side by side, and merges what they bring."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from kvroute.tokens import TOKEN_BYTES, unpack_tokens
from kvroute.v1 import common_pb2, router_pb2
from router_svc.http.base import Backend

_REASONS = {
    common_pb2.FINISH_REASON_STOP: "stop",
    common_pb2.FINISH_REASON_LENGTH: "length",
    # Not in OpenAI's list: nobody is there to read it.
    common_pb2.FINISH_REASON_CANCELLED: "stop",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer: its place in the response, which of the prompts it answers, which of that one's
    answers it is, and its own request.
    """

    index: int
    prompt: int
    number: int
    request: router_pb2.GenerateRequest
    record: router_pb2.Explain


@dataclass(frozen=True, slots=True)
class Piece:
    """What one part brought for one answer. `finish_reason`, "stop" or "length", in the last."""

    choice: Choice
    text: str
    token_ids: bytes
    finish_reason: str | None
    stop_reason: str
    usage: common_pb2.Usage | None

    @property
    def index(self) -> int:
        return self.choice.index

    @property
    def request(self) -> router_pb2.GenerateRequest:
        return self.choice.request

    @property
    def tokens(self) -> list[int]:
        return unpack_tokens(self.token_ids)

    @property
    def token_count(self) -> int:
        return len(self.token_ids) // TOKEN_BYTES


@dataclass(slots=True)
class Whole:
    """One answer, complete."""

    choice: Choice
    texts: list[str] = field(default_factory=list)
    ids: list[bytes] = field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: str = ""

    def take(self, piece: Piece) -> None:
        self.texts.append(piece.text)
        self.ids.append(piece.token_ids)
        self.finish_reason = piece.finish_reason or self.finish_reason
        self.stop_reason = piece.stop_reason or self.stop_reason

    @property
    def index(self) -> int:
        return self.choice.index

    @property
    def request(self) -> router_pb2.GenerateRequest:
        return self.choice.request

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def tokens(self) -> list[int]:
        return unpack_tokens(b"".join(self.ids))


def told_stop(request: router_pb2.GenerateRequest, stop: str) -> str | int | None:
    """The stop string or stop token id that the client asked for and that ended the text, as vLLM
    tells it; None for the model's own end of text.
    """
    sampling = request.sampling
    if not stop or stop in sampling.stop:
        return stop or None
    return int(stop) if stop.isdecimal() and int(stop) in sampling.stop_token_ids else None


Take = Callable[[Piece], Awaitable[None]]


def make_choices(
    requests: Sequence[router_pb2.GenerateRequest], n: int, request_id: str, backend: Backend
) -> list[Choice]:
    """`n` answers to each request, in OpenAI's order: all of the first prompt first.

    With a seed, each answer gets the next one, so that they differ and yet repeat. The first keeps
    `request_id`, the others get a number behind it.
    """
    found = []
    for prompt, request in enumerate(requests):
        for number in range(n):
            index = prompt * n + number
            own = request
            if index:
                own = router_pb2.GenerateRequest()
                own.CopyFrom(request)
            if number and own.sampling.HasField("seed"):
                own.sampling.seed = (request.sampling.seed + number) % (1 << 64)
            own.request_id = f"{request_id}-{index}" if index else request_id
            found.append(Choice(index, prompt, number, own, backend.new_record(own)))
    return found


async def run_choices(
    backend: Backend, choices: Sequence[Choice], timeout_s: float, take: Take
) -> None:
    """Serves all choices; `take` gets every piece, those of one choice in order.

    Raises:
        KvrouteError: of the first choice that failed; the others are cancelled. What `take` raises.
    """
    if len(choices) == 1:
        await _run(backend, choices[0], timeout_s, take)
        return
    try:
        async with asyncio.TaskGroup() as group:
            for choice in choices:
                group.create_task(_run(backend, choice, timeout_s, take))
    except BaseExceptionGroup as failures:
        raise first_error(failures) from failures


def first_error(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first leaf of a group."""
    error: BaseException = failures
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _run(backend: Backend, choice: Choice, timeout_s: float, take: Take) -> None:
    async def write(part: bytes) -> None:
        await take(read_part(choice, router_pb2.GenerateResponse.FromString(part)))

    await backend.generate(choice.request, choice.record, timeout_s, write)


def read_part(choice: Choice, part: router_pb2.GenerateResponse) -> Piece:
    """One piece out of a part that may be several joined ones."""
    outputs = part.outputs
    usage = part.usage if part.HasField("usage") else None
    if len(outputs) == 1:
        one = outputs[0]
        return Piece(
            choice,
            one.text,
            one.token_ids,
            _REASONS.get(one.finish_reason),
            one.stop_reason,
            usage,
        )
    last = outputs[-1] if outputs else router_pb2.Output()
    return Piece(
        choice,
        "".join([one.text for one in outputs]),
        b"".join([one.token_ids for one in outputs]),
        _REASONS.get(last.finish_reason),
        last.stop_reason,
        usage,
    )
