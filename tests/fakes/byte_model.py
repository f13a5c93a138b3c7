"""A model whose tokens are bytes and whose answers a prompt can dictate: `[[say:TEXT]]` in the
prompt is answered with TEXT and an end. Any other prompt gets letters that depend on the prompt
and, when sampled, on the seed.

Text goes through the worker's own detokenizer and stop strings, so characters split over tokens and
stops behave as with a real model.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.fakes.engine import FakeEngine, _Run
from worker_svc.base import EngineRequest, Finished, Output, TokenLogprobs
from worker_svc.text.stream import TextStream

BOS, EOS = 256, 257
_SAY = re.compile(r"\[\[say:(.*?)\]\]", re.DOTALL)


class ByteText:
    """A tokenizer of UTF-8 bytes, with one BOS before everything and a plain chat template."""

    available = True

    def encode(self, text: str) -> list[int]:
        return [BOS, *text.encode()]

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Any] | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> list[int]:
        text = f"<tools>{len(tools)}\n" if tools else ""
        for message in messages:
            text += f"<{message['role']}>{message['content']}</>\n"
        return self.encode(text + "<assistant>")

    def decode(self, token_ids: Sequence[int]) -> str:
        return bytes(token for token in token_ids if token < 256).decode("utf-8", "replace")


def logprobs(request: EngineRequest, token: int) -> tuple[TokenLogprobs, ...]:
    """The chosen token at -0.5, then its successors, each a half less likely; if asked for."""
    count = request.sampling.logprobs
    if count is None:
        return ()
    top = tuple((token + more, -0.5 * (more + 1)) for more in range(count))
    return (TokenLogprobs(token, -0.5, top),)


class ByteEngine(FakeEngine):
    """Generates what `ByteText` can decode."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self.generated = 0
        self._streams: dict[int, TextStream] = {}
        self._text = ByteText()

    def _decode(self, run: _Run) -> Output:
        request, sampling = run.request, run.request.sampling
        stream = self._streams.get(request.request_id)
        if stream is None:
            stream = TextStream(self._text.decode, request.tokens, sampling.stop)
            self._streams[request.request_id] = stream
        position = run.generated + request.resumed_tokens
        token = self._token(request, position)
        run.tokens.append(token)
        run.generated += 1
        self.generated += 1
        armed = position + 1 >= sampling.min_tokens
        if armed and (
            (token == EOS and not sampling.ignore_eos) or token in sampling.stop_token_ids
        ):
            told = stream.finish()
            stop = str(token) if token in sampling.stop_token_ids else ""
            return self._end(run, "stop", told.text, token, told.stop or stop)
        told = stream.push(token, armed=armed)
        if told.stop is not None:
            return self._end(run, "stop", told.text, token, told.stop)
        if position + 1 >= sampling.max_tokens:
            rest = stream.finish()
            reason = "stop" if rest.stop is not None else "length"
            return self._end(run, reason, told.text + rest.text, token, rest.stop or "")
        return Output(request.request_id, told.text, (token,), logprobs(request, token))

    def _end(self, run: _Run, reason: str, text: str, token: int, stop: str) -> Output:
        request = run.request
        self._streams.pop(request.request_id, None)
        prompt = len(request.tokens) - request.resumed_tokens
        finished = Finished(
            reason,
            stop_reason=stop,
            prompt_tokens=prompt,
            cached_tokens=min(run.hit, prompt),
            completion_tokens=run.generated + request.resumed_tokens,
            prefill_ms=1.0,
            decode_ms=1.0 * run.generated,
            step_ms=1.0,
            batch_size=1.0,
        )
        return Output(
            request.request_id, text, (token,), logprobs(request, token), finished=finished
        )

    def _token(self, request: EngineRequest, position: int) -> int:
        prompt = request.tokens[: len(request.tokens) - request.resumed_tokens]
        said = _SAY.findall(self._text.decode(prompt))
        if said:
            script = said[-1].encode()
            return script[position] if position < len(script) else EOS
        sampling = request.sampling
        seed = sampling.seed if sampling.temperature > 0 else 0
        digest = hashlib.sha256(repr((list(prompt), seed, position)).encode()).digest()
        return ord("a") + digest[0] % 26
