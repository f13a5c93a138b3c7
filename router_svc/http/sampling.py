"""Sampling parameters out of a completion or chat body. Defaults are OpenAI's, not the protocol's:
temperature 1 where none is given.
"""

from __future__ import annotations

from kvroute.errors import InvalidArgument
from kvroute.v1 import common_pb2
from router_svc.http.fields import Fields, check_number, check_text, shown
from router_svc.validate import MAX_STOP_CHARS, MAX_STOPS, MAX_TOP_K

_MAX_TOKENS = (1 << 31) - 1
_MAX_ID = (1 << 32) - 1
_SMALLEST_TOP_P = 1e-6
_MAX_BIASES = 1024
_MAX_STOP_IDS = 256


def parse_sampling(fields: Fields, max_tokens_keys: tuple[str, ...]) -> common_pb2.SamplingParams:
    """`max_tokens_keys`: names of the length limit, the preferred one first.

    Raises:
        InvalidArgument: naming the field.
    """
    number = fields.number
    temperature = number("temperature", 0.0, 100.0)
    return common_pb2.SamplingParams(
        max_tokens=_max_tokens(fields, max_tokens_keys),
        min_tokens=fields.integer("min_tokens", 0, _MAX_TOKENS) or 0,
        temperature=1.0 if temperature is None else temperature,
        top_p=_top_p(fields),
        # Other servers write "all" as -1.
        top_k=max(0, fields.integer("top_k", -1, MAX_TOP_K) or 0),
        min_p=number("min_p", 0.0, 1.0) or 0.0,
        seed=_seed(fields),
        stop=_stops(fields),
        stop_token_ids=_stop_ids(fields),
        ignore_eos=fields.flag("ignore_eos"),
        repetition_penalty=number("repetition_penalty", 0.0, 100.0) or 0.0,
        presence_penalty=number("presence_penalty", -100.0, 100.0) or 0.0,
        frequency_penalty=number("frequency_penalty", -100.0, 100.0) or 0.0,
        logit_bias=_biases(fields),
    )


def _max_tokens(fields: Fields, keys: tuple[str, ...]) -> int:
    found = [fields.integer(key, 1, _MAX_TOKENS) for key in keys]
    return next((limit for limit in found if limit is not None), 0)


def _top_p(fields: Fields) -> float:
    """0 means the likeliest token alone; the protocol's 0 means that none is given."""
    found = fields.number("top_p", 0.0, 1.0)
    return 0.0 if found is None else max(found, _SMALLEST_TOP_P)


def _seed(fields: Fields) -> int | None:
    """OpenAI's seeds are signed; the protocol's are the same 64 bits."""
    seed = fields.integer("seed", -(1 << 63), (1 << 64) - 1)
    return None if seed is None else seed % (1 << 64)


def _stops(fields: Fields) -> list[str]:
    value = fields.get("stop")
    if isinstance(value, str):
        # An empty stop string stops nothing; OpenAI takes it so.
        return [_stop("stop", value)] if value else []
    given = fields.array("stop", MAX_STOPS)
    return [_stop(f"stop[{number}]", text) for number, text in enumerate(given)]


def _stop(name: str, value: object) -> str:
    text = check_text(name, value)
    if not 0 < len(text) <= MAX_STOP_CHARS:
        raise InvalidArgument.of(name, f"{len(text)} characters long", f"1 to {MAX_STOP_CHARS}")
    return text


def _stop_ids(fields: Fields) -> list[int]:
    found = fields.array("stop_token_ids", _MAX_STOP_IDS)
    for number, token in enumerate(found):
        check_token(f"stop_token_ids[{number}]", token)
    return found


def _biases(fields: Fields) -> dict[int, float]:
    given = fields.child("logit_bias")
    if given is None:
        return {}
    if len(given.values) > _MAX_BIASES:
        raise InvalidArgument.of(
            "logit_bias", f"{len(given.values)} entries long", f"at most {_MAX_BIASES}"
        )
    found = {}
    for key, value in given.values.items():
        if not (key.isascii() and key.isdigit() and len(key) <= 10 and int(key) <= _MAX_ID):
            raise InvalidArgument.of("logit_bias", shown(key), "a token id")
        found[int(key)] = check_number(f"logit_bias.{key}", value, -100.0, 100.0)
    return found


def check_token(name: str, token: object) -> None:
    """Raises `InvalidArgument` unless `token` is a token id."""
    if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token <= _MAX_ID:
        raise InvalidArgument.of(name, shown(token), "a token id")
