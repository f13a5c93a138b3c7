"""Load tests over real sockets: what is sent, when, and what comes of failures."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from aiohttp import web
from click.testing import CliRunner

from kvroute.errors import Overloaded
from kvroute.tokens import unpack_tokens
from loadtest.cli.loadtest import command
from loadtest.live.openai_target import OpenAiTarget
from loadtest.live.record import Record
from loadtest.live.sender import Sender, SendOptions
from loadtest.live.target import Clock, GrpcTarget, Prompt, Service
from loadtest.workloads.chat import Chat, chat
from loadtest.workloads.gsp import Gsp, gsp
from tests.fakes.fake_router import serving

SMALL = gsp(Gsp(groups=4, prompts=5, lengths=(64, 128), rate=200.0), 1)
SERVICE = Service("demo", 1000, 16, 2)


class EchoTarget:
    """Answers after a moment; notes how many requests were open at once."""

    def __init__(self) -> None:
        self.prompts: list[Prompt] = []
        self.open = self.most = 0

    async def __aenter__(self) -> EchoTarget:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def describe(self) -> Service:
        return SERVICE

    async def send(self, prompt: Prompt, record: Record, clock: Clock) -> None:
        self.prompts.append(prompt)
        self.open += 1
        self.most = max(self.most, self.open)
        for _ in range(3):
            await asyncio.sleep(0)
        self.open -= 1
        record.parts.append((clock(), prompt.output_tokens))
        record.ended = clock()


async def test_open_loop_sends_every_call_with_shared_prefixes() -> None:
    target = EchoTarget()
    records = await Sender(target, SERVICE, SendOptions()).run(SMALL)
    assert [record.number for record in records] == list(range(20))
    heads = {tuple(prompt.token_ids[:32]) for prompt in target.prompts}
    assert len(heads) == 4
    assert all(4 <= token < 1000 for prompt in target.prompts for token in prompt.token_ids)
    assert {len(prompt.token_ids) for prompt in target.prompts} == {64, 128}


async def test_closed_loop_holds_its_concurrency_and_turns_follow_answers() -> None:
    target = EchoTarget()
    workload = chat(Chat(sessions=12, think_s=0.001, rate=1000.0), 1)
    options = SendOptions(concurrency=3, hints=True)
    records = await Sender(target, SERVICE, options).run(workload)
    assert len(records) == 60
    assert target.most <= 3
    ends = [prompt for prompt in target.prompts if prompt.ends_session]
    assert len(ends) == 12 and all(prompt.breakpoint == 512 for prompt in ends)


async def test_shrink_divides_prompts_and_keeps_sharing() -> None:
    target = EchoTarget()
    await Sender(target, SERVICE, SendOptions(shrink=4, limit=10, output_cap=2)).run(SMALL)
    assert {len(prompt.token_ids) for prompt in target.prompts} <= {16, 32}
    assert len({tuple(prompt.token_ids[:8]) for prompt in target.prompts}) <= 4
    assert len(target.prompts) == 10


async def test_bounded_in_flight_shows_as_lateness() -> None:
    target = EchoTarget()
    options = SendOptions(max_in_flight=1)
    await Sender(target, SERVICE, options).run(SMALL)
    assert target.most == 1


async def test_grpc_target_reads_usage_and_explanation() -> None:
    with serving() as router:
        async with GrpcTarget(router.address, "round_robin") as target:
            service = await target.describe()
            record = Record(0, 0.0, 0.0)
            await target.send(Prompt([5, 6, 7], 4, "s1", True, 2), record, lambda: 1.0)
    assert service.model == "demo" and service.workers == 2
    assert (record.cached_tokens, record.output_tokens, record.worker) == (8, 4, "worker-0")
    assert len(record.parts) == 4 and not record.error
    (request,) = router.requests
    assert list(unpack_tokens(request.token_ids)) == [5, 6, 7]
    assert request.policy == "round_robin" and request.sampling.ignore_eos
    assert request.hints.end_session and list(request.hints.breakpoints) == [2]


async def test_failures_are_records_not_exceptions() -> None:
    with serving() as router:
        router.error = Overloaded("come back later")
        async with GrpcTarget(router.address) as target:
            record = Record(0, 0.0, 0.0)
            await target.send(Prompt([1], 1), record, lambda: 2.0)
    assert "come back later" in record.error and record.ended == 2.0


async def test_http_target_reads_event_streams() -> None:
    bodies = []

    async def completions(request: web.Request) -> web.StreamResponse:
        bodies.append(await request.json())
        if len(bodies) == 2:
            return web.Response(status=429, text="busy")
        reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await reply.prepare(request)
        usage = {
            "prompt_tokens": 10,
            "completion_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": 6},
        }
        events: list[dict[str, object]] = [
            {"choices": [{"text": "a"}]},
            {"choices": [{"text": "b"}]},
            {"choices": [], "usage": usage},
        ]
        for event in events:
            await reply.write(f"data: {json.dumps(event)}\n\n".encode())
        await reply.write(b": comment\n\ndata: [DONE]\n\n")
        return reply

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "demo"}]})

    app = web.Application()
    app.router.add_post("/v1/completions", completions)
    app.router.add_get("/v1/models", models)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        async with OpenAiTarget(f"http://127.0.0.1:{port}/") as target:
            assert (await target.describe()).model == "demo"
            good, bad = Record(0, 0.0, 0.0), Record(1, 0.0, 0.0)
            await target.send(Prompt([1, 2], 2), good, lambda: 1.0)
            await target.send(Prompt([1, 2], 2), bad, lambda: 1.0)
    finally:
        await runner.cleanup()
    assert (len(good.parts), good.cached_tokens, good.prompt_tokens) == (2, 6, 10)
    assert bad.error == "HTTP 429: busy"
    assert bodies[0]["prompt"] == [1, 2] and bodies[0]["stream"]


def test_the_command_prints_json_and_fails_with_failures(tmp_path: Path) -> None:
    with serving() as router:
        arguments = [
            *("--address", router.address, "--workload", "gsp_random", "--shrink", "16"),
            *("--limit", "12", "--stretch", "0.1", "--json"),
            *("--records", str(tmp_path / "records.jsonl")),
        ]
        done = CliRunner().invoke(command, arguments, standalone_mode=False)
        assert done.return_value == 0, done.output
        row = json.loads(done.output.splitlines()[-1])["rows"][0]
        assert (row["requests"], row["failed"], row["hit_rate"]) == (12, 0, 0.8)
        again = [*arguments, "--compare", str(tmp_path / "records.jsonl")]
        assert "ttft_p95" in CliRunner().invoke(command, again, standalone_mode=False).output
        router.error = Overloaded("full")
        assert CliRunner().invoke(command, arguments, standalone_mode=False).return_value == 1


@pytest.mark.parametrize("name", ["no_such_cell"])
def test_unknown_workloads_are_named(name: str) -> None:
    done = CliRunner().invoke(command, ["--workload", name])
    assert "neither a trace file nor a workload" in str(done.exception)
