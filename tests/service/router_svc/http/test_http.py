"""What the front does as an HTTP server: errors, headers, limits, streams."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from kvroute.errors import Overloaded, Unavailable
from router_svc.http import admin
from router_svc.http.base import Flushed
from tests.fakes.backend import FakeBackend, fronted
from tests.fakes.sse import read_events, read_stream
from tests.fakes.wait import until

BODY = {"prompt": "x"}


@asynccontextmanager
async def browsing(
    backend: FakeBackend | None = None, **settings: Any
) -> AsyncIterator[aiohttp.ClientSession]:
    async with (
        fronted(backend or FakeBackend(), **settings) as url,
        aiohttp.ClientSession(url) as session,
    ):
        yield session


async def error_of(response: aiohttp.ClientResponse) -> dict[str, Any]:
    body = await response.json()
    assert list(body) == ["error"]
    error: dict[str, Any] = body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


async def test_a_stream_is_strict_and_ends_with_done() -> None:
    texts = ("Gr", "üße\n\n", "data: [DONE]\n\n", "\u2028", "", "👋🏽\r\n")
    async with browsing(FakeBackend(texts=texts)) as session:
        response = await session.post("/v1/completions", json=BODY | {"stream": True})
        assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert response.headers["Cache-Control"] == "no-cache"
        chunks = read_stream(await response.read())
        assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == "".join(texts)
        plain = await session.post("/v1/completions", json=BODY)
        assert (await plain.json())["choices"][0]["text"] == "".join(texts)


async def test_a_stream_that_breaks_tells_the_error_and_never_done() -> None:
    backend = FakeBackend(failure=Unavailable("all workers are lost"))
    async with browsing(backend) as session:
        response = await session.post("/v1/completions", json=BODY | {"stream": True})
        assert response.status == 200
        events = read_events(await response.read())
        assert len(events) == 3
        assert json.loads(events[-1])["error"]["message"] == "all workers are lost"


async def test_an_error_before_the_first_token_keeps_its_status() -> None:
    backend = FakeBackend(texts=(), failure=Overloaded("full", retry_after_ms=2500))
    async with browsing(backend) as session:
        for stream in (False, True):
            response = await session.post("/v1/completions", json=BODY | {"stream": stream})
            assert response.status == 429
            assert response.headers["Retry-After"] == "3"
            assert (await error_of(response))["type"] == "rate_limit_error"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/completions", 405, "method_not_allowed"),
        ("GET", "/v2/completions", 404, "unknown_url"),
        ("POST", "/v1/embeddings", 404, "unknown_url"),
        ("POST", "/v1/responses", 404, "unknown_url"),
        ("GET", "/v1/models/nobody/knows", 404, "model_not_found"),
        ("POST", "/flush_cache", 403, "forbidden"),
        ("POST", "/tokenize", 400, "invalid_value"),
    ],
)
async def test_every_error_has_openais_shape(
    method: str, path: str, status: int, code: str
) -> None:
    async with browsing() as session:
        response = await session.request(method, path)
        assert response.status == status
        assert (await error_of(response))["code"] == code
        assert response.headers["x-request-id"]


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b"", "body"),
        (b"{", "body"),
        (b"[]", "body"),
        (b'{"prompt": "\xff"}', "body"),
        (b'{"prompt": "a", "prompt": "b"}', "prompt"),
        (b'{"prompt": "\\ud800"}', "prompt"),
        (b'{"prompt": "a", "temperature": 1e999}', "temperature"),
        (b'{"prompt": "a", "max_tokens": ' + b"9" * 400 + b"}", "max_tokens"),
        (b'{"prompt": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", "body"),
        (b'{"prompt": [[[1]]]}', "prompt[0][0]"),
    ],
)
async def test_a_bad_body_is_a_400_that_names_the_field(data: bytes, field: str) -> None:
    async with browsing() as session:
        response = await session.post("/v1/completions", data=data)
        assert response.status == 400
        assert (await error_of(response))["param"] == field


@pytest.mark.parametrize(
    "rest",
    [
        b"Content-Encoding: gzip\r\nContent-Length: 7\r\n\r\ngarbage",
        b"Transfer-Encoding: chunked\r\n\r\nZZ\r\nfoo\r\n0\r\n\r\n",
        b"Content-Length: -5\r\n\r\n{}",
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        b"Content-Encoding: nonsense\r\nContent-Length: 2\r\n\r\n{}",
        b"No colon\r\n\r\n",
    ],
)
async def test_broken_http_is_a_400_and_serves_on(rest: bytes) -> None:
    async with fronted(FakeBackend()) as url:
        host, port = url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + rest)
        status = await reader.readline()
        assert status.split()[1] == b"400"
        writer.close()
        async with aiohttp.ClientSession(url) as session:
            assert (await session.post("/v1/completions", json=BODY)).status == 200


async def test_a_small_body_that_unpacks_large_is_refused() -> None:
    packed = gzip.compress(b'{"prompt": "' + b"x" * 20_000_000 + b'"}')
    async with browsing() as session:
        headers = {"Content-Encoding": "gzip"}
        response = await session.post("/v1/completions", data=packed, headers=headers)
        assert response.status == 413


async def test_a_body_over_the_limit_is_refused() -> None:
    async with browsing(max_prompt_bytes=2000) as session:
        response = await session.post("/v1/completions", json={"prompt": "x" * 3000})
        assert response.status == 413
        assert (await error_of(response))["code"] == "request_too_large"


async def test_a_header_over_the_limit_is_refused() -> None:
    async with browsing(http_max_header_bytes=2000) as session:
        response = await session.get("/health", headers={"x-large": "y" * 3000})
        assert response.status == 400


async def test_the_request_id_is_echoed_or_made() -> None:
    backend = FakeBackend()
    async with browsing(backend) as session:
        response = await session.post(
            "/v1/completions", json=BODY, headers={"x-request-id": "mine"}
        )
        assert response.headers["x-request-id"] == "mine"
        assert backend.requests[0].request_id == "mine"
        for path in ("/health", "/nowhere"):
            assert (await session.get(path)).headers["x-request-id"]
        wrong = await session.get("/health", headers={"x-request-id": "y" * 300})
        assert wrong.status == 400
        assert (await error_of(wrong))["param"] == "x-request-id"


async def test_trace_and_session_headers_reach_the_request() -> None:
    backend = FakeBackend()
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = {"traceparent": parent, "x-session-id": "s", "x-kvroute-policy": "random"}
    async with browsing(backend) as session:
        await session.post("/v1/completions", json=BODY, headers=headers)
    request = backend.requests[0]
    assert request.trace.traceparent == parent
    assert (request.hints.session_id, request.policy) == ("s", "random")


async def test_breakpoints_reach_the_request_as_token_counts() -> None:
    backend = FakeBackend()
    content = [
        {"type": "text", "text": "book", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        {"type": "text", "text": " and question"},
    ]
    async with browsing(backend) as session:
        response = await session.post(
            "/v1/chat/completions", json={"messages": [{"role": "user", "content": content}]}
        )
        assert response.status == 200
    assert list(backend.requests[0].hints.breakpoints) == [4]


async def test_one_key_cannot_hold_more_requests_than_it_may() -> None:
    backend = FakeBackend(gate=asyncio.Event())
    async with browsing(backend, http_max_per_key=2) as session:

        async def ask(key: str) -> int:
            headers = {"Authorization": f"Bearer {key}"}
            async with session.post("/v1/completions", json=BODY, headers=headers) as response:
                return response.status

        held = [asyncio.create_task(ask("a")) for _ in range(2)]
        await until(lambda: backend.in_flight == 2, "two requests are open")
        assert await ask("a") == 429
        other = asyncio.create_task(ask("b"))
        await until(lambda: backend.in_flight == 3, "another key gets through")
        assert backend.gate is not None
        backend.gate.set()
        assert await asyncio.gather(*held, other) == [200, 200, 200]
        assert await ask("a") == 200


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("n", [1, 3])
async def test_a_client_that_leaves_cancels_its_work_at_once(stream: bool, n: int) -> None:
    backend = FakeBackend(gate=asyncio.Event())
    async with browsing(backend) as session:
        body = BODY | {"stream": stream, "n": n}
        task = asyncio.create_task(session.post("/v1/completions", json=body))
        await until(lambda: backend.in_flight == n, "the request is open")
        task.cancel()
        await until(lambda: backend.in_flight == 0, "the request has ended")
        assert backend.cancelled == n


async def test_when_one_of_several_answers_fails_the_others_end() -> None:
    class OneFails(FakeBackend):
        async def generate(self, request: Any, *args: Any) -> None:
            if request.request_id.endswith("-1"):
                raise Unavailable("no worker")
            self.gate = asyncio.Event()
            await super().generate(request, *args)

    backend = OneFails()
    async with browsing(backend) as session:
        response = await session.post("/v1/completions", json=BODY | {"n": 3})
        assert response.status == 503
        assert backend.in_flight == 0


async def test_a_client_that_never_reads_is_cut_off() -> None:
    backend = FakeBackend(texts=["x" * 100_000] * 400)
    async with fronted(backend, http_write_timeout_s=0.2) as url:
        host, port = url.removeprefix("http://").split(":")
        body = json.dumps(BODY | {"stream": True}).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection((host, int(port))) as idle:
            idle.sendall(head.encode() + body)
            await until(lambda: backend.requests, "the request has arrived")
            await until(lambda: backend.in_flight == 0, "the request has ended")


async def test_a_connection_serves_on_after_an_error() -> None:
    async with browsing() as session:
        for _ in range(3):
            assert (await session.post("/v1/completions", json={})).status == 400
            assert (await session.post("/v1/completions", json=BODY)).status == 200


async def test_health_is_about_the_process_and_ready_about_service() -> None:
    backend = FakeBackend(unready=Unavailable("no worker takes requests yet"))
    async with browsing(backend) as session:
        assert (await session.get("/health")).status == 200
        response = await session.get("/ready")
        assert response.status == 503
        assert response.headers["Retry-After"] == "1"
        backend.unready = None
        assert (await session.get("/ready")).status == 200


async def test_flushing_takes_the_admin_token() -> None:
    backend = FakeBackend(flushed=[Flushed("w0", dropped_blocks=3)])
    async with browsing(backend, http_admin_token="t") as session:
        assert (await session.post("/flush_cache")).status == 401
        wrong = await session.post("/flush_cache", headers={"Authorization": "Bearer u"})
        assert wrong.status == 401
        right = {"Authorization": "Bearer t"}
        done = await session.post("/flush_cache", headers=right)
        assert (await done.json())["workers"][0]["dropped_blocks"] == 3
        backend.flushed = [Flushed("w0", error="away")]
        failed = await session.post("/flush_cache", headers=right)
        assert failed.status == 503
        assert (await failed.json())["success"] is False


async def test_the_description_names_every_route() -> None:
    async with browsing() as session:
        document = await (await session.get("/openapi.json")).json()
    served = {"/v1/completions", "/v1/chat/completions", "/v1/models", "/v1/models/{model}"}
    served |= {"/tokenize", "/detokenize", "/health", "/ready", "/flush_cache", "/openapi.json"}
    assert set(document["paths"]) == served


async def test_small_packets_leave_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def probe(request: web.Request) -> web.Response:
        assert request.transport is not None
        connection = request.transport.get_extra_info("socket")
        return web.json_response(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(admin, "health", probe)
    async with browsing() as session:
        assert await (await session.get("/health")).json() != 0


async def test_open_requests_finish_when_the_front_closes() -> None:
    backend = FakeBackend(gate=asyncio.Event())
    async with aiohttp.ClientSession() as session:
        async with fronted(backend) as url:
            task = asyncio.create_task(session.post(f"{url}/v1/completions", json=BODY))
            await until(lambda: backend.in_flight == 1, "the request is open")
            assert backend.gate is not None
            asyncio.get_running_loop().call_later(0.05, backend.gate.set)
        assert (await task).status == 200
