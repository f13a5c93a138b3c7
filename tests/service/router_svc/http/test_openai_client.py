"""What users of the `openai` package do, against a live router: one line, one behaviour.

Workers are real but for their model, whose answers the prompts dictate (`[[say:...]]`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI, OpenAI

from tests.fakes.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")

Behaviour = Callable[[AsyncOpenAI], Awaitable[None]]
BEHAVIOURS: list[Behaviour] = []
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a town",
            "parameters": {"type": "object", "properties": {"town": {"type": "string"}}},
        },
    }
]
CALL = '<tool_call>\n{"name": "weather", "arguments": {"town": "Zürich"}}\n</tool_call>'


def behaviour(check: Behaviour) -> Behaviour:
    BEHAVIOURS.append(check)
    return check


def say(text: str) -> Any:
    return [{"role": "user", "content": f"[[say:{text}]]"}]


def ask(text: str = "hello") -> Any:
    return [{"role": "user", "content": text}]


@pytest_asyncio.fixture(loop_scope="module")
async def client(shared: Stack) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{shared.url}/v1", api_key="k", max_retries=0) as found:
        yield found


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    """Repeats until `check` holds: what a worker has cached reaches the router a moment later."""
    async with asyncio.timeout(30):
        while not await check():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def streamed(stream: Any) -> list[Any]:
    return [chunk async for chunk in stream]


@behaviour
async def models_are_listed(client: AsyncOpenAI) -> None:
    models = [model async for model in client.models.list()]
    assert [model.id for model in models] == ["fake"]


@behaviour
async def a_model_is_found_by_name(client: AsyncOpenAI) -> None:
    model = await client.models.retrieve("fake")
    assert (model.id, model.object, model.owned_by) == ("fake", "model", "kvroute")


@behaviour
async def an_unknown_model_is_a_not_found_error(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        await client.chat.completions.create(model="gpt-9", messages=ask())
    assert caught.value.code == "model_not_found"
    assert caught.value.param == "model"
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("gpt-9")


@behaviour
async def a_completion_has_text_and_usage(client: AsyncOpenAI) -> None:
    found = await client.completions.create(model="fake", prompt="[[say:hi]]", max_tokens=9)
    assert found.object == "text_completion"
    assert found.id.startswith("cmpl-")
    assert found.choices[0].text == "hi"
    assert found.choices[0].finish_reason == "stop"
    assert found.usage is not None
    assert found.usage.prompt_tokens == 1 + len("[[say:hi]]")
    assert found.usage.completion_tokens == 3
    assert found.usage.total_tokens == found.usage.prompt_tokens + 3


@behaviour
async def a_completion_has_sixteen_tokens_by_default(client: AsyncOpenAI) -> None:
    found = await client.completions.create(model="fake", prompt="abc")
    assert len(found.choices[0].text) == 16
    assert found.choices[0].finish_reason == "length"


@behaviour
async def a_completion_of_token_ids_equals_that_of_their_text(client: AsyncOpenAI) -> None:
    options: Any = {"model": "fake", "max_tokens": 8, "temperature": 0}
    by_text = await client.completions.create(prompt="abc", **options)
    by_ids = await client.completions.create(prompt=[256, 97, 98, 99], **options)
    assert by_ids.choices[0].text == by_text.choices[0].text
    assert by_ids.usage is not None and by_ids.usage.prompt_tokens == 4


@behaviour
async def a_list_of_prompts_is_answered_in_order(client: AsyncOpenAI) -> None:
    prompts = ["[[say:one]]", "[[say:two]]", "[[say:three]]"]
    found = await client.completions.create(model="fake", prompt=prompts, max_tokens=20)
    assert [(one.index, one.text) for one in found.choices] == [
        (0, "one"),
        (1, "two"),
        (2, "three"),
    ]
    assert found.usage is not None
    assert found.usage.prompt_tokens == sum(len(prompt) + 1 for prompt in prompts)


@behaviour
async def lists_of_token_ids_are_prompts_too(client: AsyncOpenAI) -> None:
    found = await client.completions.create(model="fake", prompt=[[256, 97], [256, 98]])
    assert len(found.choices) == 2


@behaviour
async def several_answers_differ_when_sampled(client: AsyncOpenAI) -> None:
    found = await client.completions.create(model="fake", prompt="abc", n=3, temperature=1, seed=5)
    texts = [one.text for one in found.choices]
    assert len(set(texts)) == 3
    assert found.usage is not None
    assert found.usage.prompt_tokens == 4
    assert found.usage.completion_tokens == 48


@behaviour
async def several_answers_to_several_prompts_keep_openais_order(client: AsyncOpenAI) -> None:
    found = await client.completions.create(model="fake", prompt=["[[say:a]]", "[[say:b]]"], n=2)
    assert [one.text for one in found.choices] == ["a", "a", "b", "b"]
    assert [one.index for one in found.choices] == [0, 1, 2, 3]


@behaviour
async def a_seed_repeats_an_answer(client: AsyncOpenAI) -> None:
    async def text(seed: int) -> str:
        found = await client.completions.create(
            model="fake", prompt="abc", temperature=0.9, seed=seed
        )
        return found.choices[0].text

    assert await text(1) == await text(1) != await text(2)


@behaviour
async def the_first_of_several_answers_is_the_one_of_a_single(client: AsyncOpenAI) -> None:
    options: Any = {"model": "fake", "prompt": "abc", "temperature": 1, "seed": 7}
    one = await client.completions.create(**options)
    two = await client.completions.create(n=2, **options)
    assert two.choices[0].text == one.choices[0].text


@behaviour
async def temperature_zero_ignores_the_seed(client: AsyncOpenAI) -> None:
    texts = set()
    for seed in (1, 2):
        found = await client.completions.create(
            model="fake", prompt="abc", temperature=0, seed=seed
        )
        texts.add(found.choices[0].text)
    assert len(texts) == 1


@behaviour
async def a_stop_string_ends_the_text_before_it(client: AsyncOpenAI) -> None:
    found = await client.completions.create(
        model="fake", prompt="[[say:one END two]]", stop=[" END"], max_tokens=40
    )
    assert found.choices[0].text == "one"
    assert found.choices[0].finish_reason == "stop"
    assert found.choices[0].model_dump()["stop_reason"] == " END"


@behaviour
async def a_stop_string_is_never_streamed_even_in_part(client: AsyncOpenAI) -> None:
    stream = await client.completions.create(
        model="fake", prompt="[[say:one EN END two]]", stop="END", max_tokens=40, stream=True
    )
    assert "".join(chunk.choices[0].text for chunk in await streamed(stream)) == "one EN "


@behaviour
async def echo_puts_the_prompt_first(client: AsyncOpenAI) -> None:
    found = await client.completions.create(model="fake", prompt="[[say:x]]", echo=True)
    assert found.choices[0].text == "[[say:x]]x"
    stream = await client.completions.create(
        model="fake", prompt="[[say:x]]", echo=True, stream=True
    )
    assert "".join(chunk.choices[0].text for chunk in await streamed(stream)) == "[[say:x]]x"


@behaviour
async def a_stream_of_a_completion_joins_to_the_plain_answer(client: AsyncOpenAI) -> None:
    options: Any = {"model": "fake", "prompt": "[[say:Grüße, 世界! 👋🏽]]", "max_tokens": 80}
    plain = await client.completions.create(**options)
    chunks = await streamed(await client.completions.create(stream=True, **options))
    assert "".join(chunk.choices[0].text for chunk in chunks) == plain.choices[0].text
    assert plain.choices[0].text == "Grüße, 世界! 👋🏽"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason]
    assert len({chunk.id for chunk in chunks}) == 1


@behaviour
async def usage_comes_last_and_alone_when_asked_for(client: AsyncOpenAI) -> None:
    stream = await client.completions.create(
        model="fake",
        prompt="[[say:abc]]",
        stream=True,
        stream_options={"include_usage": True},
    )
    *chunks, last = await streamed(stream)
    assert last.choices == []
    assert last.usage.completion_tokens == 4
    assert all(chunk.usage is None for chunk in chunks)


@behaviour
async def no_usage_is_streamed_unless_asked_for(client: AsyncOpenAI) -> None:
    stream = await client.completions.create(model="fake", prompt="[[say:abc]]", stream=True)
    assert all(chunk.choices and chunk.usage is None for chunk in await streamed(stream))


@behaviour
async def running_usage_counts_up(client: AsyncOpenAI) -> None:
    stream = await client.completions.create(
        model="fake",
        prompt="[[say:abc]]",
        stream=True,
        extra_body={"stream_options": {"continuous_usage_stats": True}},
    )
    counts = [chunk.usage.completion_tokens for chunk in await streamed(stream)]
    assert counts == sorted(counts)
    assert counts[-1] == 4


@behaviour
async def several_answers_stream_side_by_side(client: AsyncOpenAI) -> None:
    stream = await client.completions.create(
        model="fake", prompt=["[[say:one]]", "[[say:two]]"], stream=True, max_tokens=9
    )
    texts = {0: "", 1: ""}
    for chunk in await streamed(stream):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == {0: "one", 1: "two"}


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
