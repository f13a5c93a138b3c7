"""Chats, tool calls and log-probabilities: one function, one behaviour."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from tests.service.router_svc.http.behaviours import (
    CALL,
    TOOLS,
    ask,
    behaviour,
    eventually,
    say,
    streamed,
)


@behaviour
async def a_chat_has_a_message_and_usage(client: AsyncOpenAI) -> None:
    found = await client.chat.completions.create(model="fake", messages=say("Good morning"))
    assert found.object == "chat.completion"
    assert found.id.startswith("chatcmpl-")
    assert found.choices[0].message.role == "assistant"
    assert found.choices[0].message.content == "Good morning"
    assert found.choices[0].message.tool_calls is None
    assert found.choices[0].finish_reason == "stop"
    assert found.usage is not None and found.usage.completion_tokens == 13


@behaviour
async def a_chat_stream_joins_to_the_plain_answer(client: AsyncOpenAI) -> None:
    plain = await client.chat.completions.create(model="fake", messages=say("Ça va? 🙂"))
    chunks = await streamed(
        await client.chat.completions.create(model="fake", messages=say("Ça va? 🙂"), stream=True)
    )
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert "".join(delta.content or "" for delta in deltas) == plain.choices[0].message.content
    assert deltas[0].role == "assistant"
    assert all(delta.role is None for delta in deltas[1:])
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}


@behaviour
async def the_stream_helper_accumulates_a_chat(client: AsyncOpenAI) -> None:
    async with client.chat.completions.stream(model="fake", messages=say("step by step")) as run:
        final = await run.get_final_completion()
    assert final.choices[0].message.content == "step by step"


@behaviour
async def max_completion_tokens_limits_a_chat(client: AsyncOpenAI) -> None:
    found = await client.chat.completions.create(
        model="fake", messages=ask(), max_completion_tokens=5
    )
    assert found.choices[0].finish_reason == "length"
    assert found.usage is not None and found.usage.completion_tokens == 5


@behaviour
async def max_tokens_limits_a_chat_too(client: AsyncOpenAI) -> None:
    found = await client.chat.completions.create(model="fake", messages=ask(), max_tokens=5)
    assert found.usage is not None and found.usage.completion_tokens == 5


@behaviour
async def a_chat_without_a_limit_is_not_cut_at_sixteen(client: AsyncOpenAI) -> None:
    text = "a long answer that goes on " * 4
    found = await client.chat.completions.create(model="fake", messages=say(text))
    assert found.choices[0].message.content == text


@behaviour
async def content_parts_are_text(client: AsyncOpenAI) -> None:
    parts: Any = [{"type": "text", "text": "[[say:"}, {"type": "text", "text": "joined]]"}]
    found = await client.chat.completions.create(
        model="fake", messages=[{"role": "user", "content": parts}]
    )
    assert found.choices[0].message.content == "joined"


@behaviour
async def system_and_developer_messages_are_the_same(client: AsyncOpenAI) -> None:
    texts = set()
    for role in ("system", "developer"):
        messages: Any = [{"role": role, "content": "Be brief."}, *ask()]
        found = await client.chat.completions.create(
            model="fake", messages=messages, temperature=0, max_tokens=9
        )
        texts.add(found.choices[0].message.content)
    assert len(texts) == 1


@behaviour
async def several_chat_answers_come_in_one_response(client: AsyncOpenAI) -> None:
    found = await client.chat.completions.create(
        model="fake", messages=ask(), n=2, seed=3, max_tokens=9
    )
    assert [one.index for one in found.choices] == [0, 1]
    assert found.choices[0].message.content != found.choices[1].message.content


@behaviour
async def a_second_turn_hits_prompt_and_answer(client: AsyncOpenAI) -> None:
    messages: list[Any] = ask("a first question that is long enough to fill some blocks")
    first = await client.chat.completions.create(
        model="fake", messages=messages, temperature=0, max_tokens=40
    )
    messages.append({"role": "assistant", "content": first.choices[0].message.content})
    messages += ask("and a second one")
    assert first.usage is not None
    known = first.usage.total_tokens

    async def hits() -> bool:
        second = await client.chat.completions.create(
            model="fake", messages=messages, max_tokens=2, extra_body={"policy": "lbgr_plus"}
        )
        assert second.usage is not None and second.usage.prompt_tokens_details is not None
        cached = second.usage.prompt_tokens_details.cached_tokens or 0
        return cached > known - 16

    await eventually(hits)


@behaviour
async def a_tool_call_is_parsed(client: AsyncOpenAI) -> None:
    found = await client.chat.completions.create(model="fake", messages=say(CALL), tools=TOOLS)
    choice = found.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    assert choice.message.tool_calls is not None
    call: Any = choice.message.tool_calls[0]
    assert call.id.startswith("call_")
    assert call.function.name == "weather"
    assert json.loads(call.function.arguments) == {"town": "Zürich"}


@behaviour
async def text_before_a_tool_call_stays(client: AsyncOpenAI) -> None:
    found = await client.chat.completions.create(
        model="fake", messages=say(f"Let me see. {CALL}"), tools=TOOLS
    )
    assert found.choices[0].message.content == "Let me see."
    assert found.choices[0].message.tool_calls


@behaviour
async def two_tool_calls_are_two_and_one_when_not_parallel(client: AsyncOpenAI) -> None:
    for parallel, count in ((True, 2), (False, 1)):
        found = await client.chat.completions.create(
            model="fake", messages=say(CALL + CALL), tools=TOOLS, parallel_tool_calls=parallel
        )
        calls = found.choices[0].message.tool_calls or []
        assert len({call.id for call in calls}) == len(calls) == count


@behaviour
async def a_streamed_tool_call_accumulates(client: AsyncOpenAI) -> None:
    async with client.chat.completions.stream(
        model="fake", messages=say(f"Wait. {CALL}"), tools=TOOLS
    ) as run:
        final = await run.get_final_completion()
    choice = final.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert (choice.message.content or "").strip() == "Wait."
    assert choice.message.tool_calls
    assert choice.message.tool_calls[0].function.name == "weather"


@behaviour
async def a_llama_call_is_parsed_too(client: AsyncOpenAI) -> None:
    text = '{"name": "weather", "parameters": {"town": "Bern"}}'
    found = await client.chat.completions.create(model="fake", messages=say(text), tools=TOOLS)
    calls: Any = found.choices[0].message.tool_calls
    assert json.loads(calls[0].function.arguments) == {"town": "Bern"}


@behaviour
async def without_tools_a_call_is_text(client: AsyncOpenAI) -> None:
    found = await client.chat.completions.create(model="fake", messages=say(CALL))
    assert found.choices[0].message.content == CALL
    none = await client.chat.completions.create(
        model="fake", messages=say(CALL), tools=TOOLS, tool_choice="none"
    )
    assert none.choices[0].message.content == CALL


@behaviour
async def the_result_of_a_tool_can_be_sent_back(client: AsyncOpenAI) -> None:
    first = await client.chat.completions.create(model="fake", messages=say(CALL), tools=TOOLS)
    message = first.choices[0].message
    assert message.tool_calls
    messages: list[Any] = [
        *say(CALL),
        message,
        {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "[[say:sunny]]"},
    ]
    second = await client.chat.completions.create(model="fake", messages=messages, tools=TOOLS)
    assert second.choices[0].message.content == "sunny"


@behaviour
async def logprobs_of_a_completion_line_up(client: AsyncOpenAI) -> None:
    options: Any = {"model": "fake", "prompt": "[[say:ab]]", "max_tokens": 2, "logprobs": 2}
    found = (await client.completions.create(**options)).choices[0].logprobs
    assert found is not None
    assert found.tokens == ["a", "b"]
    assert found.token_logprobs == [-0.5, -0.5]
    assert found.top_logprobs == [{"a": -0.5, "b": -1.0}, {"b": -0.5, "c": -1.0}]
    assert found.text_offset == [0, 1]
    chunks = await streamed(await client.completions.create(stream=True, **options))
    assert [at for one in chunks for at in one.choices[0].logprobs.text_offset] == [0, 1]
    plain = await client.completions.create(model="fake", prompt="[[say:ab]]")
    assert plain.choices[0].logprobs is None


@behaviour
async def logprobs_of_a_chat_come_token_by_token(client: AsyncOpenAI) -> None:
    options: Any = {"model": "fake", "messages": say("ab"), "max_tokens": 2}
    found = await client.chat.completions.create(logprobs=True, top_logprobs=2, **options)
    assert found.choices[0].logprobs is not None and found.choices[0].logprobs.content
    first = found.choices[0].logprobs.content[0]
    assert (first.token, first.logprob, first.bytes) == ("a", -0.5, [97])
    assert [top.token for top in first.top_logprobs] == ["a", "b"]
    chunks = await streamed(
        await client.chat.completions.create(logprobs=True, stream=True, **options)
    )
    tokens = [one.token for chunk in chunks for one in chunk.choices[0].logprobs.content]
    assert tokens == ["a", "b"]
    with pytest.raises(openai.BadRequestError) as caught:
        await client.chat.completions.create(top_logprobs=2, **options)
    assert caught.value.param == "top_logprobs"
