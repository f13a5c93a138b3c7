"""The demo's requests: a few long prefixes, several questions on each, in a seeded random order.

    request = frame.before + text of one topic, cut at exactly `prefix_tokens` tokens
            + frame.between + question + frame.after

Prefix and question are turned into tokens separately and joined as token ids, so that the shared
part is the same to the token, whatever comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from kvroute.demo.corpus import filler

Encode = Callable[[str], Sequence[int]]
"""Text to token ids, without special tokens of its own."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What the model's chat template puts around the two texts."""

    before: str
    between: str
    after: str


PLAIN = Frame(before="", between="\n\nQuestion: ", after="\nAnswer:")
"""For a model without a chat template."""


@dataclass(frozen=True, slots=True)
class DemoRequest:
    """One request; `prefix_tokens` of its token ids are shared with others of its topic."""

    topic: str
    question: str
    token_ids: tuple[int, ...]
    prefix_tokens: int


def frame_from_template(render: Callable[[list[dict[str, str]]], str]) -> Frame:
    """The frame of a chat template; `PLAIN` for one that cannot show a system message.

    `render` gives the text for a conversation, with the head of the answer at its end.
    """
    system, user = "kvroute-system-text", "kvroute-user-text"
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    before, found, rest = render(messages).partition(system)
    between, found_too, after = rest.partition(user)
    return Frame(before, between, after) if found and found_too else PLAIN


def build(
    encode: Encode,
    frame: Frame,
    texts: Sequence[tuple[str, str]],
    questions: Sequence[str],
    prefix_tokens: int,
    seed: int,
) -> tuple[DemoRequest, ...]:
    """One request per pair of text and question, shuffled. `texts`: (topic, text) pairs.

    The same arguments give the same requests in the same order.
    """
    requests = []
    for number, (topic, text) in enumerate(texts):
        prefix = _prefix(encode, frame.before, topic, text, prefix_tokens, seed + number)
        for question in questions:
            suffix = tuple(encode(frame.between + question + frame.after))
            requests.append(DemoRequest(topic, question, prefix + suffix, prefix_tokens))
    Random(seed).shuffle(requests)
    return tuple(requests)


def _prefix(
    encode: Encode, before: str, topic: str, text: str, size: int, seed: int
) -> tuple[int, ...]:
    """Exactly `size` token ids. A text that is too short is filled up."""
    opening = f"{before}Documentation of the Python module {topic}.\n\n"
    ids = tuple(encode(opening + text))
    if len(ids) < size:
        # A word is at least one token.
        ids += tuple(encode(filler(seed, size - len(ids))))
    return ids[:size]
