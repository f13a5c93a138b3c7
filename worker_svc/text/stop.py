"""Stop strings in a stream: nothing of one is ever sent, and no more is held back than could become
one.

Example, stop "END": after "the E" the "E" is held; " nd" follows, so "E nd" goes out; had "ND"
followed, the stream would end with "the ".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StopResult:
    """Text that may be sent, and the stop string that ended the stream, if one did."""

    text: str
    stop: str | None = None


class StopStrings:
    """State is a function of the texts pushed."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""

    def push(self, text: str, *, armed: bool = True) -> StopResult:
        """Not `armed` (before `min_tokens`): the text passes unexamined."""
        if not armed or not self._stops:
            out, self._held = self._held + text, ""
            return StopResult(out)
        held = self._held + text
        found = [(at, stop) for stop in self._stops if (at := held.find(stop)) >= 0]
        if found:
            at, stop = min(found)
            self._held = ""
            return StopResult(held[:at], stop)
        keep = max(_overlap(held, stop) for stop in self._stops)
        self._held = held[len(held) - keep :]
        return StopResult(held[: len(held) - keep])

    def finish(self) -> str:
        """What was held back, at an end of another kind."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Length of the longest proper prefix of `stop` that `text` ends with."""
    for size in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:size]):
            return size
    return 0
