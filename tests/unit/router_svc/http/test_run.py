"""Answers side by side: order, seeds, ids, counts, merged parts."""

from __future__ import annotations

from typing import Any

import pytest

from kvroute.errors import KvrouteError, Unavailable
from kvroute.tokens import pack_tokens
from kvroute.v1 import common_pb2, router_pb2
from router_svc.http.run import Piece, make_choices, read_part, run_choices, told_stop
from router_svc.http.usage import UsageCounter
from tests.fakes.backend import FakeBackend


def request(**sampling: Any) -> router_pb2.GenerateRequest:
    return router_pb2.GenerateRequest(prompt="x", sampling=common_pb2.SamplingParams(**sampling))


def test_choices_are_numbered_prompt_by_prompt_with_seeds_and_ids() -> None:
    asked = [request(seed=(1 << 64) - 1), request()]
    choices = make_choices(asked, 2, "id", FakeBackend())
    assert [(one.index, one.prompt, one.number) for one in choices] == [
        (0, 0, 0),
        (1, 0, 1),
        (2, 1, 0),
        (3, 1, 1),
    ]
    assert [one.request.request_id for one in choices] == ["id", "id-1", "id-2", "id-3"]
    assert [one.request.sampling.seed for one in choices[:2]] == [(1 << 64) - 1, 0]
    assert not choices[3].request.sampling.HasField("seed")


def test_joined_parts_become_one_piece() -> None:
    (choice,) = make_choices([request()], 1, "id", FakeBackend())
    part = router_pb2.GenerateResponse()
    part.outputs.add(text="a", token_ids=pack_tokens([1]))
    part.outputs.add(
        text="b", token_ids=pack_tokens([2]), finish_reason=common_pb2.FINISH_REASON_LENGTH
    )
    piece = read_part(choice, part)
    assert (piece.text, piece.tokens, piece.finish_reason) == ("ab", [1, 2], "length")
    assert read_part(choice, router_pb2.GenerateResponse()).text == ""


async def test_the_first_failure_is_told() -> None:
    backend = FakeBackend(failure=Unavailable("gone"))
    choices = make_choices([request()], 3, "id", backend)

    async def take(piece: Piece) -> None:
        pass

    with pytest.raises(KvrouteError, match="gone"):
        await run_choices(backend, choices, 1.0, take)
    assert backend.in_flight == 0


async def test_a_prompt_counts_once_however_many_answers_it_gets() -> None:
    backend = FakeBackend(texts=("a", "b"))
    usage = UsageCounter()

    async def take(piece: Piece) -> None:
        usage.add(piece)

    choices = make_choices([request(), request()], 2, "id", backend)
    await run_choices(backend, choices, 1.0, take)
    assert usage.report() == {
        "prompt_tokens": 6,
        "completion_tokens": 8,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


@pytest.mark.parametrize(
    ("stop", "told"), [("", None), ("END", "END"), ("2", None), ("7", 7), ("7 ", None)]
)
def test_only_stops_that_were_asked_for_are_told(stop: str, told: object) -> None:
    assert told_stop(request(stop=["END"], stop_token_ids=[7]), stop) == told
