"""Long texts that every Python brings along: the documentation of its standard library."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from random import Random
from types import ModuleType

TOPICS = (
    "difflib",
    "decimal",
    "logging",
    "statistics",
    "threading",
    "collections",
    "json",
    "configparser",
    "unittest",
    "argparse",
)
"""Modules whose documentation fills 2,000 tokens and more."""

QUESTIONS = (
    "What is this module for? Answer in one sentence.",
    "Name one class or function from this documentation and say what it does.",
    "Write one line of Python that uses this module.",
    "Who would want to use this module, and for what?",
    "What should a beginner learn first about this module?",
    "Which part of this module is the most useful?",
    "What can go wrong when using this module?",
    "Give this module a new name that says what it does.",
)


def documentation(module: str) -> str:
    """The docstrings of a standard library module, in a fixed order, as one text."""
    return "\n\n".join(text for text in _docstrings(importlib.import_module(module)) if text)


def filler(seed: int, words: int) -> str:
    """Seeded word salad, for an interpreter that was told to drop docstrings (python -OO)."""
    rng = Random(seed)
    syllables = ("ka", "ro", "mi", "ten", "sul", "vor", "lim", "pa", "ges", "tu", "nor", "del")
    return " ".join("".join(rng.choices(syllables, k=rng.randint(1, 3))) for _ in range(words))


def _docstrings(module: ModuleType) -> Iterator[str]:
    yield inspect.getdoc(module) or ""
    public = getattr(module, "__all__", None) or [name for name in vars(module) if name[0] != "_"]
    for name in sorted(public):
        member = getattr(module, name, None)
        if not (inspect.isclass(member) or inspect.isroutine(member)):
            continue
        if text := inspect.getdoc(member):
            yield f"{name}: {text}"
        if inspect.isclass(member):
            yield from _methods(name, member)


def _methods(owner: str, cls: type) -> Iterator[str]:
    for name, member in vars(cls).items():
        if name[0] != "_" and inspect.isroutine(member) and (text := inspect.getdoc(member)):
            yield f"{owner}.{name}: {text}"
