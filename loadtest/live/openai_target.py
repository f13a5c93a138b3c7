"""The OpenAI HTTP front: `/v1/completions` with token ids, streamed."""

from __future__ import annotations

import json
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kvroute.errors import KvrouteError, StartError
from loadtest.live.record import Record
from loadtest.live.target import Clock, Prompt, Service

if TYPE_CHECKING:
    import aiohttp

DONE = "[DONE]"
VOCABULARY = 256
"""Ids that every tokenizer has: the HTTP front does not tell how many there are."""


class OpenAiTarget:
    """Any server that speaks this API; `url` without `/v1`. One token per event is assumed."""

    def __init__(self, url: str, api_key: str = "", timeout_s: float = 600.0) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None
        self._model = ""

    async def __aenter__(self) -> OpenAiTarget:
        try:
            import aiohttp
        except ModuleNotFoundError:
            raise StartError("HTTP load needs the Python package aiohttp") from None
        self._session = aiohttp.ClientSession(
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=self._timeout_s),
            connector=aiohttp.TCPConnector(limit=0),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def describe(self) -> Service:
        import aiohttp

        assert self._session is not None
        try:
            async with self._session.get(f"{self._url}/v1/models") as reply:
                reply.raise_for_status()
                models = (await reply.json())["data"]
        except (aiohttp.ClientError, KeyError, ValueError) as error:
            raise KvrouteError(f"{self._url} does not answer /v1/models: {error}") from None
        if not models:
            raise KvrouteError(f"{self._url} serves no model")
        self._model = models[0]["id"]
        return Service(self._model, VOCABULARY, 16, 0)

    async def send(self, prompt: Prompt, record: Record, clock: Clock) -> None:
        import aiohttp

        assert self._session is not None
        body = {
            "model": self._model,
            "prompt": prompt.token_ids,
            "max_tokens": prompt.output_tokens,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        try:
            async with self._session.post(f"{self._url}/v1/completions", json=body) as reply:
                if reply.status != 200:
                    text = (await reply.text())[:200]
                    record.error = f"HTTP {reply.status}: {text}"
                else:
                    async for line in reply.content:
                        _read_event(line.decode().strip(), record, clock)
        except (aiohttp.ClientError, TimeoutError) as error:
            record.error = f"{type(error).__name__}: {error}"
        record.ended = clock()


def _read_event(line: str, record: Record, clock: Clock) -> None:
    if not line.startswith("data:"):
        return
    data = line[5:].strip()
    if data == DONE:
        return
    event: dict[str, Any] = json.loads(data)
    if "error" in event:
        record.error = str(event["error"])[:200]
        return
    if event.get("choices"):
        record.parts.append((clock(), 1))
    usage = event.get("usage")
    if usage:
        record.prompt_tokens = usage.get("prompt_tokens", 0)
        record.output_tokens = usage.get("completion_tokens", 0)
        details = usage.get("prompt_tokens_details") or {}
        record.cached_tokens = details.get("cached_tokens") or 0
