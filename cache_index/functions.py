"""The two libraries of Redis Functions, and how they come back when they are lost with the data.

Library and function names carry the protocol version: two versions live side by side while a
deployment rolls, each process calling its own. A library is loaded where it is missing and never
replaced: one name always means one text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from redis.exceptions import ResponseError

from cache_index.commands import RedisClient, execute

PREFIX = "kvroute_v1_"
_MISSING = "function not found"
_PRESENT = "already exists"


LIBRARIES = (("index",), ("ledger_rows", "ledger_learning", "ledger"))
"""Each library's files, in order: Lua libraries cannot include one another."""


@cache
def sources() -> tuple[str, ...]:
    """The Lua text of both libraries, shipped with the package."""
    folder = resources.files("cache_index") / "lua"
    return tuple(
        "\n".join((folder / f"{part}.lua").read_text("utf-8") for part in parts)
        for parts in LIBRARIES
    )


def is_missing(error: Exception) -> bool:
    """Whether a call failed because the server has not (or no longer) our functions; nothing was
    executed.
    """
    return isinstance(error, ResponseError) and _MISSING in str(error).lower()


def is_present(error: Exception) -> bool:
    return isinstance(error, ResponseError) and _PRESENT in str(error).lower()


async def load(client: RedisClient) -> None:
    """Loads what is missing, in a Cluster on every primary. Idempotent."""
    for source in sources():
        try:
            await execute(client, "FUNCTION LOAD", source)
        except ResponseError as error:
            if not is_present(error):
                raise


@dataclass(frozen=True, slots=True)
class Call:
    """One function call: name without the version prefix, every key it touches, arguments."""

    function: str
    keys: Sequence[str]
    args: Sequence[str | bytes | int | float] = ()

    def command(self) -> tuple[str | bytes | int | float, ...]:
        return ("FCALL", PREFIX + self.function, len(self.keys), *self.keys, *self.args)


async def call(client: RedisClient, request: Call) -> Any:
    """Calls a function, loading the libraries first where they are missing. Never repeats a call
    that may have run.
    """
    try:
        return await execute(client, *request.command())
    except ResponseError as error:
        if not is_missing(error):
            raise
    await load(client)
    return await execute(client, *request.command())
