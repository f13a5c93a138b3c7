"""Refusals, extensions, headers and leaving: one function, one behaviour."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from tests.service.router_svc.http.behaviours import (
    TOOLS,
    ask,
    behaviour,
    eventually,
    say,
)


@behaviour
async def a_forced_tool_call_is_refused_clearly(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="constrained") as caught:
        await client.chat.completions.create(
            model="fake", messages=ask(), tools=TOOLS, tool_choice="required"
        )
    assert caught.value.param == "tool_choice"


@behaviour
async def a_json_response_format_is_refused_clearly(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await client.chat.completions.create(
            model="fake", messages=ask(), response_format={"type": "json_object"}
        )
    assert caught.value.param == "response_format"
    await client.chat.completions.create(
        model="fake", messages=ask(), response_format={"type": "text"}, max_tokens=1
    )


@behaviour
async def a_wrong_value_is_a_bad_request_with_its_field(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await client.chat.completions.create(model="fake", messages=ask(), temperature=-1)
    assert caught.value.param == "temperature"
    assert caught.value.type == "invalid_request_error"


@behaviour
async def an_image_is_refused_with_the_part(client: AsyncOpenAI) -> None:
    parts: Any = [{"type": "image_url", "image_url": {"url": "http://x/y.png"}}]
    with pytest.raises(openai.BadRequestError) as caught:
        await client.chat.completions.create(
            model="fake", messages=[{"role": "user", "content": parts}]
        )
    assert caught.value.param == "messages[0].content[0].type"


@behaviour
async def too_long_a_prompt_is_a_bad_request(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="8192"):
        await client.completions.create(model="fake", prompt="x" * 9000)


@behaviour
async def too_many_tokens_are_refused_with_the_room_left(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await client.completions.create(model="fake", prompt="x", max_tokens=9000)
    assert caught.value.param == "max_tokens"


@behaviour
async def a_bad_stream_request_fails_before_it_streams(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError):
        await client.completions.create(model="fake", prompt="x", max_tokens=9000, stream=True)


@behaviour
async def embeddings_are_not_found(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="embeddings"):
        await client.embeddings.create(model="fake", input="x")


@behaviour
async def unknown_parameters_are_ignored(client: AsyncOpenAI) -> None:
    found = await client.chat.completions.create(
        model="fake",
        messages=say("fine"),
        user="me",
        metadata={"a": "b"},
        store=False,
        extra_body={"frobnicate": [1, 2]},
    )
    assert found.choices[0].message.content == "fine"


@behaviour
async def parameters_of_other_servers_work(client: AsyncOpenAI) -> None:
    found = await client.completions.create(
        model="fake",
        prompt="[[say:ab]]",
        max_tokens=5,
        extra_body={
            "ignore_eos": True,
            "min_tokens": 3,
            "top_k": -1,
            "repetition_penalty": 1.0,
            "logprobs": None,
        },
    )
    assert found.usage is not None and found.usage.completion_tokens == 5


@behaviour
async def generated_token_ids_come_when_asked_for(client: AsyncOpenAI) -> None:
    found = await client.completions.create(
        model="fake", prompt="[[say:ab]]", extra_body={"return_token_ids": True}
    )
    assert found.choices[0].model_dump()["token_ids"] == [97, 98, 257]


@behaviour
async def the_request_id_comes_back(client: AsyncOpenAI) -> None:
    found = await client.completions.create(
        model="fake", prompt="[[say:a]]", extra_headers={"x-request-id": "mine-1"}
    )
    assert found._request_id == "mine-1"
    assert found.id == "cmpl-mine-1"


@behaviour
async def headers_explain_the_routing_when_asked_for(client: AsyncOpenAI) -> None:
    options: Any = {"model": "fake", "prompt": "explain me " * 9, "max_tokens": 1}
    for stream in (False, True):

        async def hits(stream: bool = stream) -> bool:
            raw = await client.completions.with_raw_response.create(
                stream=stream, extra_headers={"x-kvroute-explain": "1"}, **options
            )
            assert raw.headers["x-kvroute-worker"] in ("w0", "w1")
            names = ("x-kvroute-predicted-hit", "x-kvroute-delivered-hit")
            return [int(raw.headers[name]) for name in names] == [96, 96]

        await eventually(hits)
    raw = await client.completions.with_raw_response.create(**options)
    assert "x-kvroute-worker" not in raw.headers


@behaviour
async def cached_tokens_are_told(client: AsyncOpenAI) -> None:
    options: Any = {"model": "fake", "prompt": "the same prompt again " * 5, "max_tokens": 1}

    async def hits() -> bool:
        found = await client.completions.create(**options)
        assert found.usage is not None and found.usage.prompt_tokens_details is not None
        cached: int | None = found.usage.prompt_tokens_details.cached_tokens
        return cached == 96

    await eventually(hits)


@behaviour
async def a_policy_can_be_chosen(client: AsyncOpenAI) -> None:
    raw = await client.completions.with_raw_response.create(
        model="fake",
        prompt="x",
        max_tokens=1,
        extra_body={"policy": "round_robin"},
        extra_headers={"x-kvroute-explain": "1"},
    )
    assert raw.headers["x-kvroute-policy"] == "round_robin"
    with pytest.raises(openai.BadRequestError) as caught:
        await client.completions.create(model="fake", prompt="x", extra_body={"policy": "best"})
    assert caught.value.param == "policy"


@behaviour
async def cache_marks_of_other_services_are_taken(client: AsyncOpenAI) -> None:
    parts: Any = [
        {"type": "text", "text": "a long book", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "[[say:read]]"},
    ]
    found = await client.chat.completions.create(
        model="fake",
        messages=[{"role": "user", "content": parts}],
        extra_body={"session_id": "s1", "end_session": True, "prompt_cache_retention": "24h"},
    )
    assert found.choices[0].message.content == "read"


@behaviour
async def leaving_a_stream_early_is_fine(client: AsyncOpenAI) -> None:
    stream = await client.completions.create(model="fake", prompt="x", max_tokens=5000, stream=True)
    async for _ in stream:
        break
    await stream.close()
    found = await client.completions.create(model="fake", prompt="[[say:on]]")
    assert found.choices[0].text == "on"


@behaviour
async def many_requests_run_side_by_side(client: AsyncOpenAI) -> None:
    found = await asyncio.gather(
        *(
            client.completions.create(model="fake", prompt=f"[[say:{n}]]", max_tokens=9)
            for n in range(32)
        )
    )
    assert [one.choices[0].text for one in found] == [str(n) for n in range(32)]
