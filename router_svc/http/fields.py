"""Typed access to a JSON object of a request; whatever is wrong is named by its path, as in
`messages[2].content[0].text`.

`null` is the same as absent, as OpenAI clients send it for parameters that were not given.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from typing import Any

from kvroute.errors import InvalidArgument

_TYPES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}
_MAX_DEPTH = 64


class Fields:
    """Read-only. Every method raises `InvalidArgument` that names the field, its value and what it
    must be.
    """

    def __init__(self, values: Mapping[str, Any], path: str = "") -> None:
        self.path = path
        self._values = values
        self._read: set[str] = set()

    def get(self, key: str) -> Any:
        """The value as it is; None when absent."""
        self._read.add(key)
        return self._values.get(key)

    def ignored(self) -> tuple[str, ...]:
        """Keys that nobody has asked for so far."""
        return tuple(key for key in self._values if key not in self._read)

    @property
    def values(self) -> dict[str, Any]:
        """All of it; every key counts as read."""
        self._read.update(self._values)
        return dict(self._values)

    def name(self, key: str) -> str:
        """The path of a field of this object."""
        return f"{self.path}.{key}" if self.path else key

    def has(self, key: str) -> bool:
        return self.get(key) is not None

    def text(self, key: str, default: str = "") -> str:
        value = self.get(key)
        return default if value is None else check_text(self.name(key), value)

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise wrong_type(self.name(key), value, bool)
        return value

    def integer(self, key: str, low: int, high: int) -> int | None:
        """A whole number within `low` and `high`; 3.0 is one, as JSON knows no other numbers."""
        value = self.get(key)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise wrong_type(self.name(key), value, int)
        if not low <= value <= high:
            raise InvalidArgument.of(self.name(key), shown(value), _between(low, high))
        return value

    def number(self, key: str, low: float, high: float) -> float | None:
        value = self.get(key)
        return None if value is None else check_number(self.name(key), value, low, high)

    def choice(self, key: str, allowed: Collection[str]) -> str:
        """One of `allowed`, or empty when absent."""
        if not self.has(key):
            return ""
        value = self.text(key)
        if value not in allowed:
            raise InvalidArgument.of(self.name(key), value, "one of " + ", ".join(sorted(allowed)))
        return value

    def child(self, key: str) -> Fields | None:
        """The object under `key`."""
        value = self.get(key)
        return None if value is None else as_object(self.name(key), value)

    def array(self, key: str, most: int) -> list[Any]:
        """The array under `key`, of at most `most` items; empty when absent."""
        value = self.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise wrong_type(self.name(key), value, list)
        if len(value) > most:
            raise InvalidArgument.of(self.name(key), f"{len(value)} items long", f"at most {most}")
        return value

    def objects(self, key: str, most: int) -> list[Fields]:
        """The array of objects under `key`."""
        name = self.name(key)
        return [as_object(f"{name}[{at}]", value) for at, value in enumerate(self.array(key, most))]

    def refuse(self, key: str, why: str, *harmless: object) -> None:
        """Refuses a known field that is not served, unless it has one of the values that change
        nothing.
        """
        value = self.get(key)
        if value is None or any(value == one and type(value) is type(one) for one in harmless):
            return
        raise InvalidArgument(
            f"{self.name(key)} is not served: {why}", field=self.name(key), value=shown(value)
        )


def as_object(name: str, value: Any) -> Fields:
    if not isinstance(value, dict):
        raise wrong_type(name, value, dict)
    return Fields(value, name)


def check_text(name: str, value: Any) -> str:
    """`value` as text that can be sent on: JSON escapes can smuggle in half surrogate pairs."""
    if not isinstance(value, str):
        raise wrong_type(name, value, str)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidArgument(
                f"{name} holds half a surrogate pair; it must be Unicode text", field=name
            ) from None
    return value


def check_number(name: str, value: Any, low: float, high: float) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise wrong_type(name, value, float)
    # JSON's 1e999 is read as infinity.
    if not low <= value <= high or not math.isfinite(value):
        raise InvalidArgument.of(name, shown(value), _between(low, high))
    return float(value)


def to_json(name: str, value: Any) -> str:
    """JSON text of a part that is passed on: finite numbers, Unicode text, bounded depth."""
    _check_depth(name, value)
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        raise InvalidArgument(f"{name} holds a number beyond 1.8e308", field=name) from None
    return check_text(name, text)


def wrong_type(name: str, value: Any, wanted: type) -> InvalidArgument:
    return InvalidArgument.of(name, shown(value), _TYPES[wanted])


def shown(value: Any) -> str:
    """A value for a message: its type where it is large."""
    if isinstance(value, str):
        return "the string " + repr(value[:40].encode("utf-8", "replace").decode())
    if isinstance(value, bool) or value is None:
        return str(value).lower() if value is not None else "null"
    if isinstance(value, int) and abs(value) > 1 << 64:
        return f"a number of {value.bit_length()} bits"
    return str(value) if isinstance(value, int | float) else _TYPES.get(type(value), "something")


def _between(low: float, high: float) -> str:
    return f"between {low:g} and {high:g}" if high < 1 << 31 else f"{low:g} or more, within reason"


def _check_depth(name: str, value: Any) -> None:
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise InvalidArgument(f"{name} is nested deeper than {_MAX_DEPTH}", field=name)
