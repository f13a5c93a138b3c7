"""Bodies of `POST /v1/completions`, and the shapes of its answers."""

from __future__ import annotations

from typing import Any

from kvroute.errors import InvalidArgument
from router_svc.http.call import Call, Context, common, parse_n, parse_stream, with_input
from router_svc.http.fields import Fields
from router_svc.http.prompts import parse_prompts
from router_svc.http.run import Piece, Whole, told_stop
from router_svc.http.sampling import parse_sampling


def parse_completion(values: dict[str, Any], context: Context) -> Call:
    """Raises `InvalidArgument` that names the field."""
    fields = Fields(values)
    stream = parse_stream(fields)
    sampling = parse_sampling(fields, ("max_tokens",))
    prompts = parse_prompts(fields, context.max_choices)
    n = parse_n(fields, len(prompts), context)
    echo = fields.flag("echo")
    if echo and any(prompt.WhichOneof("input") == "token_ids" for prompt in prompts):
        raise InvalidArgument("echo is not served for token ids: send text", field="echo")
    fields.refuse("suffix", "generation goes on behind the prompt", "")
    fields.refuse("response_format", "output is not constrained", {"type": "text"})
    fields.refuse("logprobs", "the engine does not tell them yet", False)
    base = common(fields, context, sampling)
    return Call(
        requests=tuple(with_input(base, prompt) for prompt in prompts),
        n=n,
        stream=stream,
        token_ids=fields.flag("return_token_ids"),
        echo=echo,
        ignored=fields.ignored(),
    )


class CompletionShape:
    """`text_completion` objects."""

    id_prefix = "cmpl-"
    whole_object = chunk_object = "text_completion"

    def __init__(self, call: Call) -> None:
        self._echo = call.echo
        self._token_ids = call.token_ids
        self._begun: set[int] = set()

    def chunk(self, piece: Piece) -> dict[str, Any]:
        """The choice in a stream's event."""
        first = piece.index not in self._begun
        self._begun.add(piece.index)
        return self._choice(piece, piece.text, first)

    def whole(self, whole: Whole) -> dict[str, Any]:
        """The choice in a plain answer."""
        return self._choice(whole, whole.text, True)

    def _choice(self, part: Piece | Whole, text: str, first: bool) -> dict[str, Any]:
        choice = {
            "index": part.index,
            "text": part.request.prompt + text if self._echo and first else text,
            "logprobs": None,
            "finish_reason": part.finish_reason,
            "stop_reason": told_stop(part.request, part.stop_reason),
        }
        if self._token_ids:
            choice["token_ids"] = part.tokens
        return choice
