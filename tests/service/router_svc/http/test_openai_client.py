"""What users of the `openai` package do, against a live router: one line, one behaviour.

Workers are real but for their model, whose answers the prompts dictate (`[[say:...]]`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI, OpenAI

from tests.fakes.stack import Stack
from tests.service.router_svc.http import behaviours_chats, behaviours_completions, behaviours_edges
from tests.service.router_svc.http.behaviours import BEHAVIOURS, Behaviour, say

pytestmark = pytest.mark.asyncio(loop_scope="module")

_TABLE = (behaviours_completions, behaviours_chats, behaviours_edges)
"""Importing them fills `BEHAVIOURS`."""


@pytest_asyncio.fixture(loop_scope="module")
async def client(shared: Stack) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{shared.url}/v1", api_key="k", max_retries=0) as found:
        yield found


@pytest.mark.parametrize("check", BEHAVIOURS, ids=lambda check: check.__name__)
async def test_the_async_client(check: Behaviour, client: AsyncOpenAI) -> None:
    await check(client)


async def test_the_table_has_at_least_forty_lines() -> None:
    assert len(BEHAVIOURS) >= 40


async def test_the_sync_client_chats_and_streams(shared: Stack) -> None:
    def talk() -> tuple[str | None, str, str]:
        with OpenAI(base_url=f"{shared.url}/v1", api_key="k", max_retries=0) as client:
            plain = client.chat.completions.create(model="fake", messages=say("hello"))
            stream = client.chat.completions.create(
                model="fake", messages=say("hello"), stream=True
            )
            text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
            done = client.completions.create(model="fake", prompt="[[say:hello]]")
            return plain.choices[0].message.content, text, done.choices[0].text

    assert await asyncio.to_thread(talk) == ("hello", "hello", "hello")


async def test_the_sync_client_raises_typed_errors(shared: Stack) -> None:
    def fail() -> None:
        with OpenAI(base_url=f"{shared.url}/v1", api_key="k", max_retries=0) as client:
            client.chat.completions.create(model="fake", messages=[])

    with pytest.raises(openai.BadRequestError) as caught:
        await asyncio.to_thread(fail)
    assert caught.value.param == "messages"
