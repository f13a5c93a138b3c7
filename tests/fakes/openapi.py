"""Reads an OpenAPI document: makes values for a schema, and says what is wrong with a value.

Knows the part of JSON Schema that our document uses; anything else is an error, so that the
document cannot promise what nobody checks.
"""

from __future__ import annotations

import re
from random import Random
from typing import Any

_KNOWN = frozenset(
    (
        "$ref",
        "type",
        "enum",
        "anyOf",
        "properties",
        "required",
        "additionalProperties",
        "propertyNames",
        "maxProperties",
        "items",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "pattern",
        "description",
    )
)
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_LETTERS = 'abc é世👋\n\t"\\<{[0'


class Schemas:
    """The `components/schemas` of a document."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._schemas: dict[str, Any] = document["components"]["schemas"]

    def resolve(self, schema: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in schema:
            found: dict[str, Any] = self._schemas[schema["$ref"].rpartition("/")[2]]
            return found
        unknown = set(schema) - _KNOWN
        assert not unknown, f"the reader does not know {unknown}"
        return schema

    # Checking

    def wrong(self, schema: dict[str, Any], value: Any, path: str = "$") -> str | None:
        """What is wrong with `value`; None when it fits."""
        schema = self.resolve(schema)
        if "anyOf" in schema:
            found = [self.wrong(one, value, path) for one in schema["anyOf"]]
            return None if None in found else f"{path}: none of {found}"
        kinds = schema.get("type", [])
        kinds = kinds if isinstance(kinds, list) else [kinds]
        if kinds and not any(_is(kind, value) for kind in kinds):
            return f"{path}: {value!r:.60} is no {kinds}"
        if "enum" in schema and value not in schema["enum"]:
            return f"{path}: {value!r:.60} is not in {schema['enum']}"
        if isinstance(value, str):
            return self._wrong_text(schema, value, path)
        if isinstance(value, dict):
            return self._wrong_object(schema, value, path)
        if isinstance(value, list):
            return self._wrong_array(schema, value, path)
        if isinstance(value, int | float) and not isinstance(value, bool):
            low, high = schema.get("minimum", value), schema.get("maximum", value)
            return None if low <= value <= high else f"{path}: {value} not in [{low}, {high}]"
        return None

    def _wrong_text(self, schema: dict[str, Any], value: str, path: str) -> str | None:
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 1 << 40):
            return f"{path}: {len(value)} characters"
        if "pattern" in schema and not re.search(schema["pattern"], value):
            return f"{path}: {value!r:.60} does not match"
        return None

    def _wrong_array(self, schema: dict[str, Any], value: list[Any], path: str) -> str | None:
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 1 << 40):
            return f"{path}: {len(value)} items"
        for at, one in enumerate(value):
            wrong = self.wrong(schema.get("items", {}), one, f"{path}[{at}]")
            if wrong:
                return wrong
        return None

    def _wrong_object(self, schema: dict[str, Any], value: dict[str, Any], path: str) -> str | None:
        missing = [name for name in schema.get("required", ()) if name not in value]
        if missing:
            return f"{path}: {missing} missing"
        if len(value) > schema.get("maxProperties", 1 << 40):
            return f"{path}: {len(value)} properties"
        known = schema.get("properties", {})
        for name, one in value.items():
            if name in known:
                wrong = self.wrong(known[name], one, f"{path}.{name}")
            else:
                names = schema.get("propertyNames", {})
                rest = schema.get("additionalProperties", {})
                wrong = self.wrong(names, name, path) or self.wrong(rest, one, f"{path}.{name}")
            if wrong:
                return wrong
        return None

    # Making

    def make(self, schema: dict[str, Any], rng: Random) -> Any:
        """A small random value that fits."""
        schema = self.resolve(schema)
        if "anyOf" in schema:
            return self.make(rng.choice(schema["anyOf"]), rng)
        if "enum" in schema:
            return rng.choice(schema["enum"])
        kinds = schema.get("type", "null")
        kind = rng.choice(kinds) if isinstance(kinds, list) else kinds
        if kind == "string":
            if "pattern" in schema:
                return str(rng.randrange(1000))
            low, high = schema.get("minLength", 0), min(schema.get("maxLength", 12), 12)
            return "".join(rng.choices(_LETTERS, k=rng.randint(low, high)))
        if kind == "boolean":
            return rng.random() < 0.5
        if kind in ("integer", "number"):
            return _number(kind, schema, rng)
        if kind == "array":
            low = schema.get("minItems", 0)
            size = rng.randint(low, min(schema.get("maxItems", low + 2), low + 2))
            return [self.make(schema["items"], rng) for _ in range(size)]
        return self._object(schema, rng) if kind == "object" else None

    def _object(self, schema: dict[str, Any], rng: Random) -> dict[str, Any]:
        found = {}
        for name, one in schema.get("properties", {}).items():
            if name in schema.get("required", ()) or rng.random() < 0.15:
                found[name] = self.make(one, rng)
        if "additionalProperties" in schema and rng.random() < 0.5:
            name = self.make(schema.get("propertyNames", {"type": "string"}) | _TEXT, rng)
            found[name] = self.make(schema["additionalProperties"], rng)
        return found


_TEXT = {"type": "string"}


def _is(kind: str, value: Any) -> bool:
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return True
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind])


def _number(kind: str, schema: dict[str, Any], rng: Random) -> int | float:
    low, high = schema.get("minimum", 0), schema.get("maximum", 1 << 20)
    high = min(high, low + 8) if low >= 0 else min(high, 8)
    low = max(low, -8)
    return rng.randint(int(low), int(high)) if kind == "integer" else rng.uniform(low, high)
