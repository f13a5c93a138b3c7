"""Prompts to token ids, the way the model's own tokenizer and chat template do it."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from kvroute.errors import InvalidArgument, Unsupported

_FINGERPRINT_CHARS = 16


class TextService:
    """Thread-safe. Every method raises `Unsupported` when the model has no tokenizer."""

    def __init__(self, tokenizer: Any | None) -> None:
        self._tokenizer = tokenizer
        # Fast tokenizers change their own state while encoding ("Already borrowed" otherwise).
        self._lock = threading.Lock()
        self._bos: int | None = None if tokenizer is None else tokenizer.bos_token_id
        self._adds_bos = self._bos is not None and self.encode("a")[:1] == [self._bos]

    def encode(self, text: str) -> list[int]:
        """Token ids of a completion prompt, with the special tokens that the tokenizer adds by
        default.
        """
        return self._encode(text, special=True)

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """Token ids of a conversation up to where the assistant speaks. Starts with exactly one
        BOS, if any is used.

        Raises `InvalidArgument` when the template refuses the messages, `Unsupported` without a
        chat template.
        """
        tokenizer = self._need()
        if not tokenizer.chat_template:
            raise Unsupported(
                "this model has no chat template; send a prompt or token ids", field="chat"
            )
        try:
            text = tokenizer.apply_chat_template(
                [dict(message) for message in messages],
                tools=list(tools) if tools else None,
                add_generation_prompt=True,
                tokenize=False,
                **dict(template_kwargs or {}),
            )
        except Exception as error:  # Jinja templates raise whatever they like.
            raise InvalidArgument(
                f"the chat template refuses these messages: {_line(error)}", field="chat.messages"
            ) from error
        ids = self._encode(text, special=False)
        while ids[:2] == [self._bos, self._bos]:
            del ids[0]
        if self._adds_bos and self._bos is not None and ids[:1] != [self._bos]:
            ids.insert(0, self._bos)
        return ids

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text without special tokens. Appending tokens never changes whole characters decoded
        before.
        """
        tokenizer = self._need()
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is not None:
            return str(backend.decode(token_ids, skip_special_tokens=True))
        return str(
            tokenizer.decode(
                token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        )

    @property
    def available(self) -> bool:
        return self._tokenizer is not None

    def fingerprint(self) -> str:
        """16 hex digits over what decides token ids, not paths; empty without a tokenizer."""
        if self._tokenizer is None:
            return ""
        return _digest({"content": _content(self._tokenizer), "adds_bos": self._adds_bos})

    def template_fingerprint(self) -> str:
        """16 hex digits over the chat template; empty without one."""
        template = getattr(self._tokenizer, "chat_template", None)
        return _digest(template) if template else ""

    def _need(self) -> Any:
        if self._tokenizer is None:
            raise Unsupported("this model has no tokenizer; send token ids", field="token_ids")
        return self._tokenizer

    def _encode(self, text: str, *, special: bool) -> list[int]:
        tokenizer = self._need()
        with self._lock:
            return list(tokenizer.encode(text, add_special_tokens=special))


def _content(tokenizer: Any) -> Any:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return {"class": type(tokenizer).__name__, "vocab": tokenizer.get_vocab()}
    content = json.loads(backend.to_str())
    # Set by earlier calls, not by the files.
    content.pop("truncation", None)
    content.pop("padding", None)
    return content


def _digest(value: Any) -> str:
    data = json.dumps(value, sort_keys=True, ensure_ascii=False).encode()
    return hashlib.sha256(data).hexdigest()[:_FINGERPRINT_CHARS]


def _line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
