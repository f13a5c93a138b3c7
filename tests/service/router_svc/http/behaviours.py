"""The table of behaviours that the `openai` package is held to, and what its lines share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from openai import AsyncOpenAI

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


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    """Repeats until `check` holds: what a worker has cached reaches the router a moment later."""
    async with asyncio.timeout(30):
        while not await check():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def streamed(stream: Any) -> list[Any]:
    return [chunk async for chunk in stream]
