"""Token ids to text as they come, never half a character.

A token's text depends on its neighbours (a character may span tokens, a leading space may be
dropped at the start), so each step decodes a short window: `decode(window)` minus `decode(window
without the new tokens)` is the new text. It is held back while it ends in U+FFFD, which is what an
unfinished character decodes to.

Example, "é" as two byte tokens: the first decodes to U+FFFD and is held; with the second the
window ends in "é", sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Decode = Callable[[Sequence[int]], str]

_CONTEXT = 6
"""Tokens before the new ones that the window starts with."""
_MAX_HELD = 8
"""A character has at most 4 bytes: what is unfinished after 8 tokens is invalid bytes, and is sent
as such.
"""

_UNFINISHED = "�"


class Detokenizer:
    """State is a function of the prompt and the tokens pushed: it can be rebuilt anywhere."""

    def __init__(self, decode: Decode, prompt: Sequence[int]) -> None:
        self._decode = decode
        self._window = list(prompt[-_CONTEXT:])
        self._sent = len(self._window)
        self._sent_text = decode(self._window) if self._window else ""

    def push(self, token: int) -> str:
        """New whole characters, maybe none."""
        window = self._window
        window.append(token)
        text = self._decode(window)
        if text.endswith(_UNFINISHED) and len(window) - self._sent <= _MAX_HELD:
            return ""
        new = text[len(self._sent_text) :]
        del window[: self._sent]
        self._sent = len(window)
        self._sent_text = self._decode(window)
        return new

    def finish(self) -> str:
        """What can still be said at the end: whole characters before an unfinished one."""
        if len(self._window) == self._sent:
            return ""
        return self._decode(self._window)[len(self._sent_text) :].rstrip(_UNFINISHED)
