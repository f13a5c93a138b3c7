"""Token counts of a response over all its answers."""

from __future__ import annotations

from typing import Any

from router_svc.http.run import Choice, Piece


class UsageCounter:
    """Prompt tokens count once for each prompt, however many answers it gets; so do the cached
    ones, by the first answer's hit.
    """

    def __init__(self) -> None:
        self._prompt: dict[int, int] = {}
        self._cached: dict[int, int] = {}
        self._generated: dict[int, int] = {}

    def add(self, piece: Piece) -> None:
        """Counts a piece. The worker's own figures, which come last, replace what was counted."""
        choice = piece.choice
        self._note_prompt(choice, choice.record.prompt_tokens, choice.record.delivered_hit)
        generated = self._generated.get(choice.index, 0) + piece.token_count
        if piece.usage is not None:
            generated = piece.usage.completion_tokens
            self._note_prompt(choice, piece.usage.prompt_tokens, piece.usage.cached_tokens)
        self._generated[choice.index] = generated

    def report(self) -> dict[str, Any]:
        """An OpenAI `usage` object."""
        prompt, generated = sum(self._prompt.values()), sum(self._generated.values())
        return {
            "prompt_tokens": prompt,
            "completion_tokens": generated,
            "total_tokens": prompt + generated,
            "prompt_tokens_details": {"cached_tokens": sum(self._cached.values())},
        }

    def _note_prompt(self, choice: Choice, tokens: int, cached: int) -> None:
        if choice.number == 0 or choice.prompt not in self._prompt:
            self._prompt[choice.prompt] = tokens
        if choice.number == 0:
            self._cached[choice.prompt] = cached
