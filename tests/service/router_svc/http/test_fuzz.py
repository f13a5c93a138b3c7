"""Requests made from the OpenAPI document, and worse ones: never a 5xx, always a named field, and
answers as the document says.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import aiohttp
import pytest

from tests.fakes.fuzz import Case, cases
from tests.fakes.openapi import Schemas
from tests.fakes.sse import read_stream
from tests.fakes.stack import Stack
from tests.service.router_svc.http.conftest import ADMIN

pytestmark = pytest.mark.asyncio(loop_scope="module")

SEED = 8
ERROR = {"$ref": "#/components/schemas/Error"}


class Judge:
    """Sends cases and says what is wrong with the answers."""

    def __init__(self, session: aiohttp.ClientSession, document: dict[str, Any]) -> None:
        self._session = session
        self._document = document
        self._schemas = Schemas(document)
        self.statuses: Counter[str] = Counter()

    async def wrong(self, case: Case) -> str | None:
        """None when all is as it should be."""
        headers = {"Content-Type": "application/json"}
        async with self._session.request(
            case.method, case.path, data=case.body, headers=headers
        ) as response:
            data = await response.read()
        self.statuses[f"{case.kind} {response.status}"] += 1
        what = f"{case} -> {response.status} {data[:300]!r}"
        if response.status >= 500:
            return f"server error: {what}"
        if "x-request-id" not in response.headers:
            return f"no request id: {what}"
        if response.status >= 400:
            return self._wrong_error(case, response.status, data, what)
        if case.kind == "wrong":
            return f"accepted: {what}"
        return self._wrong_answer(case, response.content_type, data, what)

    def _wrong_error(self, case: Case, status: int, data: bytes, what: str) -> str | None:
        body = json.loads(data)
        wrong = self._schemas.wrong(ERROR, body)
        if wrong:
            return f"{wrong}: {what}"
        if case.kind == "wrong":
            param = str(body["error"]["param"])
            if status not in (400, 404) or not _names(param, case):
                return f"does not name {case.field}: {what}"
        if status == 400 and not body["error"]["param"]:
            return f"names no field: {what}"
        return None

    def _wrong_answer(self, case: Case, kind: str, data: bytes, what: str) -> str | None:
        if kind == "text/event-stream":
            read_stream(data)
            return None
        methods = self._document["paths"].get(case.path)
        if methods is None:
            return None
        content = methods[case.method.lower()]["responses"]["200"]["content"]
        wrong = self._schemas.wrong(content["application/json"]["schema"], json.loads(data))
        return f"{wrong}: {what}" if wrong else None


def _names(param: str, case: Case) -> bool:
    """Whether the error is about the field; without messages there should be a prompt."""
    named = param.split(".")[0].split("[")[0]
    return named == case.field or (case.path == "/tokenize" and named == "prompt")


async def fuzz(running: Stack, count: int) -> Counter[str]:
    headers = {"Authorization": f"Bearer {ADMIN}"}
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(running.url, headers=headers, timeout=timeout) as session:
        document = await (await session.get("/openapi.json")).json()
        judge = Judge(session, document)
        todo = cases(document, SEED, count)
        found: list[str] = []

        async def work() -> None:
            for case in todo:
                wrong = await judge.wrong(case)
                if wrong:
                    found.append(wrong)

        await asyncio.gather(*(work() for _ in range(8)))
        assert not found, f"{len(found)} of {count} (seed {SEED}):\n" + "\n".join(found[:20])
        assert (await session.get("/health")).status == 200
    return judge.statuses


async def test_a_thousand_requests_never_break_the_front(shared: Stack) -> None:
    statuses = await fuzz(shared, 1000)
    assert sum(statuses.values()) == 1000
    fitting = {name: count for name, count in statuses.items() if name.startswith("fits")}
    assert fitting["fits 200"] > 0.6 * sum(fitting.values()), statuses


@pytest.mark.soak
async def test_ten_thousand_requests_never_break_the_front(shared: Stack) -> None:
    await fuzz(shared, 10_000)
