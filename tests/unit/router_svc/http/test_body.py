"""Bodies: what two readers could understand differently is refused."""

from __future__ import annotations

import pytest

from kvroute.errors import InvalidArgument
from router_svc.http.body import parse_object


def test_an_object_is_parsed() -> None:
    assert parse_object(b' {"a": [1, {"b": null}], "\xc3\xa9": "x"} ') == {
        "a": [1, {"b": None}],
        "é": "x",
    }


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"{", "not JSON"),
        (b'{"a": 1,}', "not JSON"),
        (b"[1]", "object"),
        (b"null", "object"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "Infinity"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b'{"a": "\xff"}', "byte 7 is 0xff"),
        ('{"a": 1}'.encode("utf-16"), "UTF-8"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"a": "\x01"}', "not JSON"),
    ],
)
def test_a_bad_body_is_refused_and_says_why(data: bytes, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said) as caught:
        parse_object(data)
    assert caught.value.field == "body"


def test_a_key_that_comes_twice_is_named_at_any_depth() -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_object(b'{"a": [{"max_tokens": 1, "x": 2, "max_tokens": 3}]}')
    assert caught.value.field == "max_tokens"
