"""The text of one generated sequence: detokenizer and stop strings together."""

from __future__ import annotations

from collections.abc import Sequence

from worker_svc.text.detokenizer import Decode, Detokenizer
from worker_svc.text.stop import StopResult, StopStrings


class TextStream:
    """Without a decoder (a model without tokenizer) all text is empty."""

    def __init__(
        self, decode: Decode | None, prompt: Sequence[int], stops: tuple[str, ...]
    ) -> None:
        self._detokenizer = None if decode is None else Detokenizer(decode, prompt)
        self._stops = StopStrings(stops)

    def push(self, token: int, *, armed: bool) -> StopResult:
        """Text that may be sent after `token`."""
        if self._detokenizer is None:
            return StopResult("")
        return self._stops.push(self._detokenizer.push(token), armed=armed)

    def finish(self) -> StopResult:
        """The rest, when the sequence ended for another reason than a stop string. May find one at
        the very end.
        """
        if self._detokenizer is None:
            return StopResult("")
        last = self._stops.push(self._detokenizer.finish())
        if last.stop is not None:
            return last
        return StopResult(last.text + self._stops.finish())
