"""Options that say how to generate, the same for `generate` and `chat`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

Callback = TypeVar("Callback", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--model", default="", help="Served model; not needed when there is one."),
    click.option("--max-tokens", type=int, default=256, show_default=True, help="At most so many."),
    click.option("--temperature", type=float, help="0 (the default) always takes the likeliest."),
    click.option("--top-p", type=float, help="Sample within this share of the probability."),
    click.option("--top-k", type=int, help="Sample among the k likeliest tokens."),
    click.option("--seed", type=int, help="Makes sampling repeatable."),
    click.option("--stop", multiple=True, metavar="TEXT", help="End before this text; repeatable."),
    click.option("--policy", default="", help="Routing policy; default: the router's."),
    click.option("--tenant", default="", help="Caches are not shared between tenants."),
)


def sampling_options(callback: Callback) -> Callback:
    """Adds the options; the command gets them as keywords."""
    for option in reversed(_OPTIONS):
        callback = option(callback)
    return callback


def given(options: Mapping[str, object]) -> dict[str, object]:
    """The options that were given, as keywords of `Client.generate`."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in options.items()
        if value not in (None, "", ())
    }
