"""Typed access to JSON: every mistake is named by its path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvroute.errors import InvalidArgument
from router_svc.http.fields import Fields, check_text, to_json

Read = Callable[[Fields], Any]


@pytest.mark.parametrize(
    ("value", "read", "expected"),
    [
        (None, lambda f: f.text("x"), ""),
        (None, lambda f: f.integer("x", 0, 9), None),
        (None, lambda f: f.flag("x", True), True),
        (3.0, lambda f: f.integer("x", 0, 9), 3),
        (3, lambda f: f.number("x", 0, 9), 3.0),
        ("é", lambda f: f.text("x"), "é"),
        ([1], lambda f: f.array("x", 2), [1]),
        ("a", lambda f: f.choice("x", ("a", "b")), "a"),
        (False, lambda f: f.refuse("x", "why", False), None),
    ],
)
def test_right_values_come_through(value: object, read: Read, expected: object) -> None:
    assert read(Fields({"x": value})) == expected


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (1, lambda f: f.text("x")),
        ("\ud800", lambda f: f.text("x")),
        (1, lambda f: f.flag("x")),
        ("true", lambda f: f.flag("x")),
        (True, lambda f: f.integer("x", 0, 9)),
        (3.5, lambda f: f.integer("x", 0, 9)),
        (10, lambda f: f.integer("x", 0, 9)),
        (10**400, lambda f: f.integer("x", 0, 9)),
        (10**400, lambda f: f.number("x", 0, 9)),
        (True, lambda f: f.number("x", 0, 9)),
        (float("inf"), lambda f: f.number("x", 0, float("inf"))),
        ({}, lambda f: f.array("x", 2)),
        ([1, 2, 3], lambda f: f.array("x", 2)),
        ([], lambda f: f.child("x")),
        ("c", lambda f: f.choice("x", ("a", "b"))),
        (0, lambda f: f.refuse("x", "why", False)),
        ({"a": 1}, lambda f: f.refuse("x", "why")),
    ],
)
def test_wrong_values_are_refused_with_the_field(value: object, read: Read) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read(Fields({"x": value}, "outer[1]"))
    assert caught.value.field == "outer[1].x"
    assert len(str(caught.value)) < 300


def test_items_of_an_array_are_named_by_number() -> None:
    with pytest.raises(InvalidArgument) as caught:
        Fields({"x": [{}, 1]}).objects("x", 9)
    assert caught.value.field == "x[1]"


def test_keys_that_nobody_reads_are_known_as_ignored() -> None:
    fields = Fields({"a": "1", "b": 2, "c": None})
    fields.text("a")
    fields.has("d")
    assert fields.ignored() == ("b", "c")


def test_half_a_surrogate_pair_is_no_text() -> None:
    with pytest.raises(InvalidArgument, match="surrogate"):
        check_text("x", "a\udc00")


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def test_json_that_is_passed_on_is_finite_bounded_unicode() -> None:
    assert to_json("x", {"é": [1.5, None]}) == '{"é":[1.5,null]}'
    assert to_json("x", nested(60)).count("[") == 60
    for wrong in ([float("inf")], nested(70), {"\ud800": 1}):
        with pytest.raises(InvalidArgument) as caught:
            to_json("x", wrong)
        assert caught.value.field == "x"
