"""The `openai` client against router and workers with the demo model, one line, one behaviour.

What needs dictated answers (tool calls, stops, characters over tokens) has its table beside the
byte model in `tests/service/router_svc/http`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI, OpenAI

from cache_index.embedded import EmbeddedServer
from cache_index.redis_url import client_from_url
from tests.fakes.processes import fleet
from worker_svc.demo_model import ensure_demo_model

pytestmark = pytest.mark.asyncio(loop_scope="module")

Behaviour = Callable[[AsyncOpenAI], Awaitable[None]]
ASK: Any = [{"role": "user", "content": "What is the capital of France?"}]
GREEDY: dict[str, Any] = {"model": "demo", "temperature": 0, "max_tokens": 6}
PROMPT = "The capital of France is"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(
    tmp_path_factory: pytest.TempPathFactory, valkey_process: EmbeddedServer
) -> AsyncIterator[str]:
    redis = client_from_url(valkey_process.url)
    await redis.flushall()
    await redis.aclose()
    model = await asyncio.to_thread(ensure_demo_model)
    folder = tmp_path_factory.mktemp("openai")
    async with fleet(folder, valkey_process.url, lease_s=5.0) as running:
        for number in range(2):
            args = ("--model", str(model), "--served-name", "demo", "--threads", "1")
            await running.real_worker(f"w{number}", *args)
        router = await running.router("router", "--http-listen", "127.0.0.1:0")
        yield f"http://{router.http}/v1"


@pytest_asyncio.fixture(loop_scope="module")
async def client(url: str) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=url, api_key="k", max_retries=0, timeout=120) as found:
        yield found


async def complete(client: AsyncOpenAI, **options: Any) -> Any:
    return await client.completions.create(**{"prompt": PROMPT, **GREEDY, **options})


async def chat(client: AsyncOpenAI, **options: Any) -> Any:
    return await client.chat.completions.create(**{"messages": ASK, **GREEDY, **options})


async def streamed(client: AsyncOpenAI, **options: Any) -> list[Any]:
    return [chunk async for chunk in await complete(client, stream=True, **options)]


async def refused(call: Awaitable[Any], field: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await call
    assert caught.value.param == field


async def the_model_is_listed(client: AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["demo"]


async def the_model_is_found(client: AsyncOpenAI) -> None:
    assert (await client.models.retrieve("demo")).id == "demo"


async def another_model_is_not_found(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        await complete(client, model="other")


async def a_completion_knows_its_facts(client: AsyncOpenAI) -> None:
    assert "Paris" in (await complete(client)).choices[0].text


async def a_chat_knows_its_facts(client: AsyncOpenAI) -> None:
    found = await chat(client, max_tokens=12)
    assert "Paris" in found.choices[0].message.content
    assert found.choices[0].message.role == "assistant"


async def a_chat_ends_by_itself(client: AsyncOpenAI) -> None:
    found = await chat(client, max_tokens=40)
    assert found.choices[0].finish_reason == "stop"
    assert "<|im_end|>" not in found.choices[0].message.content
    assert found.choices[0].model_dump()["stop_reason"] is None


async def greedy_answers_repeat(client: AsyncOpenAI) -> None:
    first, second = await complete(client), await complete(client)
    assert first.choices[0].text == second.choices[0].text
    assert first.id != second.id


async def a_stream_joins_to_the_plain_answer(client: AsyncOpenAI) -> None:
    chunks = await streamed(client)
    plain = await complete(client)
    assert "".join(chunk.choices[0].text for chunk in chunks) == plain.choices[0].text


async def a_chat_stream_joins_to_the_plain_answer(client: AsyncOpenAI) -> None:
    chunks = [chunk async for chunk in await chat(client, stream=True)]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == (await chat(client)).choices[0].message.content


async def the_role_comes_once_and_first(client: AsyncOpenAI) -> None:
    chunks = [chunk async for chunk in await chat(client, stream=True)]
    roles = [chunk.choices[0].delta.role for chunk in chunks]
    assert roles == ["assistant"] + [None] * (len(chunks) - 1)


async def the_reason_comes_once_and_last(client: AsyncOpenAI) -> None:
    reasons = [chunk.choices[0].finish_reason for chunk in await streamed(client)]
    assert reasons[-1] == "length"
    assert not any(reasons[:-1])


async def the_limit_is_kept(client: AsyncOpenAI) -> None:
    found = await complete(client, max_tokens=3)
    assert found.usage.completion_tokens == 3
    assert found.choices[0].finish_reason == "length"


async def the_newer_limit_is_kept(client: AsyncOpenAI) -> None:
    found = await chat(client, max_completion_tokens=2)
    assert found.usage.completion_tokens == 2


async def usage_adds_up(client: AsyncOpenAI) -> None:
    usage = (await complete(client)).usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


async def streamed_usage_equals_the_plain_one(client: AsyncOpenAI) -> None:
    *_, last = await streamed(client, stream_options={"include_usage": True})
    plain = await complete(client)
    assert last.choices == []
    assert last.usage.total_tokens == plain.usage.total_tokens


async def running_usage_ends_at_the_total(client: AsyncOpenAI) -> None:
    body = {"stream_options": {"continuous_usage_stats": True}}
    counts = [one.usage.completion_tokens for one in await streamed(client, extra_body=body)]
    assert counts == sorted(counts) and counts[-1] == 6


async def a_repeated_prompt_is_cached(client: AsyncOpenAI) -> None:
    prompt = "All of these words are the same again and again. " * 4
    async with asyncio.timeout(60):
        while not (
            (await complete(client, prompt=prompt, max_tokens=1)).usage.prompt_tokens_details
        ).cached_tokens:
            await asyncio.sleep(0.05)


async def a_second_turn_hits_the_first(client: AsyncOpenAI) -> None:
    first = await chat(client, max_tokens=40)
    turns = [
        *ASK,
        {"role": "assistant", "content": first.choices[0].message.content},
        {"role": "user", "content": "And of Italy?"},
    ]
    async with asyncio.timeout(60):
        while True:
            second = await chat(client, messages=turns, max_tokens=1)
            if second.usage.prompt_tokens_details.cached_tokens > 16:
                return
            await asyncio.sleep(0.05)


async def token_ids_are_a_prompt(client: AsyncOpenAI) -> None:
    body: Any = {"prompt": PROMPT, "model": "demo"}
    found: Any = await client.with_options(base_url=str(client.base_url).replace("/v1", "")).post(
        "/tokenize", body=body, cast_to=object
    )
    by_ids = await complete(client, prompt=found["tokens"])
    assert by_ids.choices[0].text == (await complete(client)).choices[0].text


async def detokenizing_undoes_tokenizing(client: AsyncOpenAI) -> None:
    root = client.with_options(base_url=str(client.base_url).replace("/v1", ""))
    ids: Any = await root.post("/tokenize", body={"prompt": "Grüße, 世界 👋🏽"}, cast_to=object)
    back: Any = await root.post("/detokenize", body={"tokens": ids["tokens"]}, cast_to=object)
    assert back["prompt"] == "Grüße, 世界 👋🏽"


async def a_chat_has_one_beginning(client: AsyncOpenAI) -> None:
    root = client.with_options(base_url=str(client.base_url).replace("/v1", ""))
    found: Any = await root.post("/tokenize", body={"messages": ASK}, cast_to=object)
    starts = [at for at, token in enumerate(found["tokens"]) if token == found["tokens"][0]]
    assert 1 not in starts


async def several_prompts_are_answered_in_order(client: AsyncOpenAI) -> None:
    alone = await complete(client, prompt="One, two,", max_tokens=3)
    found = await complete(client, prompt=[PROMPT, "One, two,"], max_tokens=3)
    assert found.choices[1].text == alone.choices[0].text


async def several_answers_differ(client: AsyncOpenAI) -> None:
    found = await complete(client, n=2, temperature=1.0, seed=3)
    assert found.choices[0].text != found.choices[1].text
    assert [one.index for one in found.choices] == [0, 1]


async def several_chat_answers_stream_side_by_side(client: AsyncOpenAI) -> None:
    stream = await chat(client, n=2, temperature=1.0, seed=3, stream=True)
    assert {chunk.choices[0].index async for chunk in stream} == {0, 1}


async def a_seed_repeats_an_answer(client: AsyncOpenAI) -> None:
    texts = [(await complete(client, temperature=1.0, seed=9)).choices[0].text for _ in range(2)]
    assert texts[0] == texts[1]


async def seeds_differ(client: AsyncOpenAI) -> None:
    texts = {
        (await complete(client, temperature=1.0, seed=seed)).choices[0].text for seed in (1, 2, 3)
    }
    assert len(texts) > 1


async def a_stop_string_ends_the_text_before_it(client: AsyncOpenAI) -> None:
    whole = (await complete(client, max_tokens=8)).choices[0].text
    stop = whole[len(whole) // 2 :][:3]
    found = await complete(client, max_tokens=8, stop=[stop])
    assert found.choices[0].text == whole[: whole.index(stop)]
    assert found.choices[0].finish_reason == "stop"


async def ignoring_the_end_goes_on_to_the_limit(client: AsyncOpenAI) -> None:
    found = await chat(client, max_tokens=20, extra_body={"ignore_eos": True})
    assert found.usage.completion_tokens == 20


async def a_bias_forbids_a_token(client: AsyncOpenAI) -> None:
    first = await complete(client, max_tokens=1, extra_body={"return_token_ids": True})
    (token,) = first.choices[0].model_dump()["token_ids"]
    other = await complete(
        client,
        max_tokens=1,
        logit_bias={str(token): -100},
        extra_body={"return_token_ids": True},
    )
    assert other.choices[0].model_dump()["token_ids"] != [token]


async def echo_puts_the_prompt_first(client: AsyncOpenAI) -> None:
    assert (await complete(client, echo=True)).choices[0].text.startswith(PROMPT)


async def tools_are_taken(client: AsyncOpenAI) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    found = await chat(client, tools=[tool])
    assert found.choices[0].finish_reason in ("stop", "length", "tool_calls")


async def text_parts_are_text(client: AsyncOpenAI) -> None:
    parts = [{"type": "text", "text": ASK[0]["content"]}]
    found = await chat(client, messages=[{"role": "user", "content": parts}])
    assert found.choices[0].message.content == (await chat(client)).choices[0].message.content


async def a_system_message_counts(client: AsyncOpenAI) -> None:
    longer = [{"role": "system", "content": "Be brief. " * 20}, *ASK]
    plain, guided = await chat(client), await chat(client, messages=longer)
    assert guided.usage.prompt_tokens > plain.usage.prompt_tokens


async def a_policy_can_be_chosen(client: AsyncOpenAI) -> None:
    raw = await client.completions.with_raw_response.create(
        prompt=PROMPT,
        extra_body={"policy": "round_robin"},
        extra_headers={"x-kvroute-explain": "1"},
        **GREEDY,
    )
    assert raw.headers["x-kvroute-policy"] == "round_robin"
    assert raw.headers["x-kvroute-worker"] in ("w0", "w1")


async def the_request_id_comes_back(client: AsyncOpenAI) -> None:
    found = await complete(client, extra_headers={"x-request-id": "mine"})
    assert (found._request_id, found.id) == ("mine", "cmpl-mine")


async def a_negative_temperature_is_refused(client: AsyncOpenAI) -> None:
    await refused(complete(client, temperature=-1), "temperature")


async def too_much_output_is_refused(client: AsyncOpenAI) -> None:
    await refused(complete(client, max_tokens=1_000_000), "max_tokens")


async def an_unknown_token_is_refused(client: AsyncOpenAI) -> None:
    await refused(complete(client, prompt=[1, 10**6]), "prompt[1]")


async def no_messages_are_refused(client: AsyncOpenAI) -> None:
    await refused(chat(client, messages=[]), "messages")


async def a_json_schema_is_refused(client: AsyncOpenAI) -> None:
    await refused(chat(client, response_format={"type": "json_object"}), "response_format")


async def a_forced_call_is_refused(client: AsyncOpenAI) -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    await refused(chat(client, tools=[tool], tool_choice="required"), "tool_choice")


async def embeddings_are_not_found(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        await client.embeddings.create(model="demo", input="x")


async def leaving_early_leaves_nothing_behind(client: AsyncOpenAI) -> None:
    stream = await complete(client, max_tokens=2000, stream=True)
    async for _ in stream:
        break
    await stream.close()
    assert (await complete(client, max_tokens=2)).usage.completion_tokens == 2


async def requests_run_side_by_side(client: AsyncOpenAI) -> None:
    prompts = [f"{number}, {number + 1}," for number in range(6)]
    alone = [await complete(client, prompt=one, max_tokens=3) for one in prompts]
    together = await asyncio.gather(
        *(complete(client, prompt=one, max_tokens=3) for one in prompts)
    )
    assert [one.choices[0].text for one in together] == [one.choices[0].text for one in alone]


async def the_sync_client_works(client: AsyncOpenAI) -> None:
    def talk() -> str | None:
        with OpenAI(base_url=str(client.base_url), api_key="k", timeout=120) as sync:
            return sync.chat.completions.create(messages=ASK, **GREEDY).choices[0].message.content

    assert await asyncio.to_thread(talk) == (await chat(client)).choices[0].message.content


HELPERS = {complete, chat, streamed, refused, url, client}
BEHAVIOURS: list[Behaviour] = [
    found
    for name, found in list(globals().items())
    if asyncio.iscoroutinefunction(found) and found not in HELPERS and not name.startswith("test")
]


@pytest.mark.parametrize("check", BEHAVIOURS, ids=lambda check: check.__name__)
async def test_the_demo_model_behind_openais_client(check: Behaviour, client: AsyncOpenAI) -> None:
    await check(client)


async def test_the_table_has_at_least_forty_lines() -> None:
    assert len(BEHAVIOURS) >= 40
