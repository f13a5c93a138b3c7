"""Bytes of a request body to a JSON object, stricter than `json`: what two readers could understand
differently is refused.

Refused: other encodings than UTF-8, a byte order mark, NaN and Infinity, a key twice in one object,
nesting beyond the interpreter's depth, integers beyond its digit limit.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from kvroute.errors import InvalidArgument


def parse_object(data: bytes) -> dict[str, Any]:
    """The object that `data` holds.

    Raises:
        InvalidArgument: field "body", or the key that came twice.
    """
    if not data.strip():
        raise InvalidArgument("the body is empty; it must be a JSON object", field="body")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgument(
            f"the body is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}",
            field="body",
            limit="UTF-8",
        ) from None
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise InvalidArgument("the body is nested too deeply", field="body") from None
    except ValueError as error:
        raise InvalidArgument(f"the body is not JSON: {error}", field="body") from None
    if not isinstance(value, dict):
        raise InvalidArgument("the body must be a JSON object", field="body", limit="object")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                shown = key[:80].encode("utf-8", "replace").decode()
                raise InvalidArgument(f"the key {shown!r} is there twice", field=shown)
            seen.add(key)
    return found


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
