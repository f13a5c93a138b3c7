"""Imports of what only an install extra brings, with a line that says which one is missing."""

from __future__ import annotations

import importlib
from types import ModuleType

from kvroute.errors import StartError

OURS = ("cache_index", "kvroute", "loadtest", "router_svc", "worker_svc")


def import_extra(module: str, extra: str) -> ModuleType:
    """Imports `module`. Raises StartError naming the extra if a package of others is missing.

    A module of our own that is missing is a fault of ours, and stays an ImportError.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        name = (missing.name or "").partition(".")[0]
        if not name or name in OURS:
            raise
        raise StartError(
            f"the Python package {name} is not installed: pip install 'kvroute[{extra}]'"
        ) from missing
