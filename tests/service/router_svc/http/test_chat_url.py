"""`kvroute chat --url` against a live front."""

from __future__ import annotations

import asyncio

import pytest

from kvroute.cli.chat import Conversation
from kvroute.cli.chat_url import ChatUrl, talk
from kvroute.errors import InvalidArgument
from tests.fakes.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_chat_over_http_keeps_its_history(
    shared: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = iter(["[[say:first é]]", "/explain", "", "[[say:second]]", "/reset", None])
    conversation = Conversation("Be brief.")
    await asyncio.to_thread(
        talk, ChatUrl(shared.url), conversation, {"temperature": 0}, lambda: next(lines)
    )
    shown = capsys.readouterr()
    assert "first é" in shown.out and "second" in shown.out
    assert "prompt tokens from cache" in shown.err
    assert "worker: w" in shown.err
    assert len(conversation.messages) == 1


async def test_an_error_is_told_and_the_chat_goes_on(
    shared: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = iter(["x" * 9000, "[[say:fine]]", "/quit"])
    conversation = Conversation()
    await asyncio.to_thread(
        talk, ChatUrl(f"{shared.url}/v1"), conversation, {}, lambda: next(lines)
    )
    shown = capsys.readouterr()
    assert "8192" in shown.err
    assert "fine" in shown.out
    assert [one["role"] for one in conversation.messages] == ["user", "assistant"]


async def test_a_server_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    lines = iter(["hello", None])
    await asyncio.to_thread(
        talk, ChatUrl("http://127.0.0.1:1"), Conversation(), {}, lambda: next(lines)
    )
    assert "no answer from 127.0.0.1" in capsys.readouterr().err


async def test_a_wrong_url_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="http://HOST:PORT"):
        ChatUrl("127.0.0.1:8000")
