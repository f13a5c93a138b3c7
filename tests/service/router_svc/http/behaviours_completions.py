"""Models and completions: one function, one behaviour."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from tests.service.router_svc.http.behaviours import (
    ask,
    behaviour,
    streamed,
)


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
