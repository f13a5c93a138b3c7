"""Streams of text: never half a character, never part of a stop string, the same wherever they
are cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from worker_svc.text.detokenizer import Detokenizer
from worker_svc.text.stop import StopStrings
from worker_svc.text.stream import TextStream


def decode(tokens: Sequence[int]) -> str:
    """Tokens are bytes: the hardest case, every character beyond ASCII spans tokens."""
    return bytes(tokens).decode("utf-8", errors="replace")


TEXTS = ["plain", "é", "漢字かな交じり", "a😀b👩‍👩‍👧c", "naïve – “quoted”"]


@pytest.mark.parametrize("text", TEXTS)
def test_pieces_join_to_the_text_and_hold_no_half_character(text: str) -> None:
    stream = Detokenizer(decode, list(b"prompt "))
    pieces = [stream.push(byte) for byte in text.encode()] + [stream.finish()]
    assert "".join(pieces) == text
    assert not any("�" in piece for piece in pieces)


def test_an_unfinished_character_is_never_sent() -> None:
    stream = Detokenizer(decode, [])
    assert [stream.push(byte) for byte in "a😀".encode()[:-1]] == ["a", "", "", ""]
    assert stream.finish() == ""


def test_endless_invalid_bytes_are_not_held_for_ever() -> None:
    stream = Detokenizer(decode, [])
    assert "".join(stream.push(0x80) for _ in range(40)).count("�") >= 30


def test_a_stop_string_ends_the_stream_before_itself() -> None:
    stream = TextStream(decode, [], ("END", "\n\n"))
    sent = ""
    for byte in b"to the E nd EN":
        sent += stream.push(byte, armed=True).text
    assert sent == "to the E nd "
    last = stream.push(ord("D"), armed=True)
    assert (last.text, last.stop) == ("", "END")


def test_what_was_held_is_sent_at_another_end() -> None:
    stream = TextStream(decode, [], ("END",))
    sent = "".join(stream.push(byte, armed=True).text for byte in b"an EN")
    assert sent == "an "
    assert stream.finish().text == "EN"


def test_the_first_of_several_stops_counts() -> None:
    stops = StopStrings(("cd", "bc"))
    result = stops.push("abcd")
    assert (result.text, result.stop) == ("a", "bc")


def test_nothing_stops_before_min_tokens() -> None:
    stops = StopStrings(("b",))
    assert stops.push("abc", armed=False).stop is None
    assert stops.push("abc").stop == "b"


def test_random_cuts_never_show_a_stop_string() -> None:
    rng = Random(1)
    for _ in range(300):
        text = "".join(rng.choice("abé") for _ in range(30))
        stop = "".join(rng.choice("abé") for _ in range(rng.randrange(1, 5)))
        stream, sent, ended = TextStream(decode, [], (stop,)), "", False
        for byte in text.encode():
            result = stream.push(byte, armed=True)
            sent += result.text
            if result.stop is not None:
                ended = True
                break
        if not ended:
            sent += stream.finish().text
        assert sent == text.split(stop)[0]


def test_state_is_a_function_of_the_tokens() -> None:
    """A stream rebuilt from the tokens so far says the same from there on."""
    tokens = list("x😀 END nearly EN, then END".encode())
    first = TextStream(decode, [], ("END",))
    pieces = [first.push(token, armed=True).text for token in tokens[:16]]
    for cut in range(len(pieces)):
        again = TextStream(decode, [], ("END",))
        rebuilt = [again.push(token, armed=True).text for token in tokens[:cut]]
        assert rebuilt == pieces[:cut]
        assert [again.push(token, armed=True).text for token in tokens[cut:16]] == pieces[cut:]


def test_without_a_tokenizer_there_is_no_text() -> None:
    stream = TextStream(None, [1], ("x",))
    assert stream.push(1, armed=True).text == "" and stream.finish().text == ""
