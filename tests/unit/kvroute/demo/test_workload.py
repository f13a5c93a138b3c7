"""The demo's requests: exact prefixes, all pairs, one order for one seed."""

from __future__ import annotations

from collections import Counter

import pytest

from kvroute.demo.corpus import QUESTIONS, TOPICS, documentation, filler
from kvroute.demo.workload import PLAIN, DemoRequest, Frame, build, frame_from_template

FRAME = Frame("<sys>", "</sys><user>", "</user>")
TEXTS = [("a", "text of a " * 50), ("b", "text of b " * 50), ("c", "short")]


def encode(text: str) -> list[int]:
    """One token a character."""
    return [ord(letter) for letter in text]


def built(seed: int = 1) -> tuple[DemoRequest, ...]:
    return build(encode, FRAME, TEXTS, ("Q1?", "Q2?"), 100, seed)


def test_requests_of_a_topic_share_exactly_the_prefix() -> None:
    by_topic: dict[str, list[DemoRequest]] = {}
    for request in built():
        by_topic.setdefault(request.topic, []).append(request)
    for first, second in by_topic.values():
        assert first.token_ids[:100] == second.token_ids[:100]
        assert first.token_ids[100:] != second.token_ids[100:]
    heads = {request.token_ids[:100] for request in built()}
    assert len(heads) == len(TEXTS)


def test_question_follows_the_prefix_in_the_frame() -> None:
    request = next(one for one in built() if one.question == "Q1?")
    tail = "".join(map(chr, request.token_ids[request.prefix_tokens :]))
    assert tail == "</sys><user>Q1?</user>"
    assert "".join(map(chr, request.token_ids)).startswith("<sys>Documentation")


def test_every_question_is_asked_once_on_every_text() -> None:
    pairs = Counter((request.topic, request.question) for request in built())
    assert len(pairs) == 6
    assert set(pairs.values()) == {1}


def test_order_is_a_function_of_the_seed() -> None:
    assert built(1) == built(1)
    assert [one.token_ids for one in built(1)] != [one.token_ids for one in built(2)]


def test_frame_is_what_the_template_puts_around_the_texts() -> None:
    def render(messages: list[dict[str, str]]) -> str:
        return "".join(f"<{one['role']}>{one['content']}\n" for one in messages) + "<assistant>"

    assert frame_from_template(render) == Frame("<system>", "\n<user>", "\n<assistant>")


def test_template_without_system_message_falls_back_to_plain_text() -> None:
    assert frame_from_template(lambda messages: messages[-1]["content"]) == PLAIN


@pytest.mark.parametrize("topic", TOPICS)
def test_documentation_is_long_enough_for_2000_tokens(topic: str) -> None:
    # English in a 49,000-token vocabulary takes about 4 characters a token.
    assert len(documentation(topic)) > 9_000
    assert documentation(topic) == documentation(topic)


def test_there_are_enough_topics_and_questions() -> None:
    assert len(TOPICS) >= 6
    assert len(set(QUESTIONS)) == len(QUESTIONS) >= 4


def test_filler_is_seeded_and_as_long_as_asked() -> None:
    assert filler(1, 50) == filler(1, 50) != filler(2, 50)
    assert len(filler(1, 50).split()) == 50
