"""The commands that talk to a router, run as a user would, against a fake one."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kvroute.cli.chat import Conversation, talk
from kvroute.cli.main import run
from kvroute.errors import InvalidArgument
from kvroute.tokens import unpack_tokens
from tests.fakes.fake_router import FakeRouter, serving


@pytest.fixture
def router() -> Iterator[FakeRouter]:
    with serving() as fake:
        yield fake


def test_generate_prints_the_text_alone(
    router: FakeRouter, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["generate", "The capital", "--address", router.address, "--max-tokens", "9"])
    assert code == 0
    assert capsys.readouterr().out == "Paris is it.\n"
    assert router.requests[0].prompt == "The capital"
    assert router.requests[0].sampling.max_tokens == 9


def test_generate_passes_all_sampling_options(router: FakeRouter) -> None:
    options = ["--temperature", "0.5", "--top-p", "0.9", "--top-k", "5", "--seed", "3"]
    options += ["--stop", "a", "--stop", "b", "--policy", "random", "--tenant", "t", "--model", "m"]
    assert run(["generate", "x", "--address", router.address, *options]) == 0
    request = router.requests[0]
    assert (request.policy, request.tenant, request.model) == ("random", "t", "m")
    assert list(request.sampling.stop) == ["a", "b"]
    assert (request.sampling.top_k, request.sampling.seed) == (5, 3)


def test_generate_sends_chat_with_a_system_message(router: FakeRouter) -> None:
    assert run(["generate", "Hi", "--system", "Be brief.", "--address", router.address]) == 0
    shown = [(one.role, one.content) for one in router.requests[0].chat.messages]
    assert shown == [("system", "Be brief."), ("user", "Hi")]


def test_generate_json_holds_usage_and_explanation(
    router: FakeRouter, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["generate", "1, 2", "--token-ids", "--json", "--address", router.address]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["text"] == "Paris is it."
    assert shown["token_ids"] == [0, 1, 2, 3]
    assert (shown["request_id"], shown["finish_reason"]) == ("r-1", "stop")
    assert shown["usage"]["cached_tokens"] == 8
    assert shown["explain"]["worker_id"] == "worker-0"
    assert list(unpack_tokens(router.requests[0].token_ids)) == [1, 2]


def test_generate_explains_on_standard_error(
    router: FakeRouter, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["generate", "x", "--explain", "--address", router.address]) == 0
    shown = capsys.readouterr()
    assert shown.out == "Paris is it.\n"
    assert "8 of 10 prompt tokens from cache" in shown.err


def test_error_of_the_router_is_one_line(
    router: FakeRouter, capsys: pytest.CaptureFixture[str]
) -> None:
    router.error = InvalidArgument.of("sampling.temperature", -1, "0 or more")
    assert run(["generate", "x", "--address", router.address]) == 1
    assert capsys.readouterr().err == "kvroute: sampling.temperature is -1; it must be 0 or more\n"


def test_no_router_is_one_line_that_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--address", "127.0.0.1:1"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("kvroute: no router answers")
    assert "kvroute up" in shown
    assert shown.count("\n") == 1


def test_status_shows_workers_sorted(
    router: FakeRouter, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["status", "--address", router.address]) == 0
    shown = capsys.readouterr().out
    assert shown.index("worker-0") < shown.index("worker-1")
    assert "0/100" in shown


def test_status_json_is_one_object_with_numbers(
    router: FakeRouter, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["status", "--json", "--address", router.address]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["models"][0]["workers"][0]["total_blocks"] == 100
    assert shown["models"][0]["degraded"] is False


def test_chat_sends_the_history_and_reset_forgets_it(
    router: FakeRouter, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = iter(["Hello", "", "Again", "/explain", "/reset", "New", "/quit"])
    talk(router.address, Conversation("Sys"), {"max_tokens": 5}, lambda: next(lines, None))
    counts = [len(request.chat.messages) for request in router.requests]
    assert counts == [2, 4, 2]
    assert "8 of 10 prompt tokens from cache" in capsys.readouterr().err


def test_chat_goes_on_after_an_error(
    router: FakeRouter, capsys: pytest.CaptureFixture[str]
) -> None:
    router.error = InvalidArgument("too long")
    conversation = Conversation()
    lines = iter(["Hello"])
    talk(router.address, conversation, {}, lambda: next(lines, None))
    assert conversation.messages == []
    assert "kvroute: too long" in capsys.readouterr().err
