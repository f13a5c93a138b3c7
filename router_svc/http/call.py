"""A parsed body: what completions and chats have in common."""

from __future__ import annotations

from dataclasses import dataclass

from kvroute.errors import InvalidArgument
from kvroute.v1 import common_pb2, router_pb2
from router_svc.http.fields import Fields
from router_svc.http.hints import parse_hints
from router_svc.http.tools import Tools

POLICY_HEADER = "x-kvroute-policy"
NOTHING_ELSE = '"logprobs":null,"finish_reason":null,"stop_reason":null'
"""What a choice in the middle of a stream says beside its text."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How an answer travels. `usage`: a last event with the counts; `running_usage`: counts in
    every event.
    """

    stream: bool = False
    usage: bool = False
    running_usage: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request: `n` answers to each of `requests`, which are complete but for their ids."""

    requests: tuple[router_pb2.GenerateRequest, ...]
    n: int
    stream: StreamOptions
    token_ids: bool = False
    """Tell the generated token ids beside the text: sent as the next prompt, they hit the cache
    exactly."""
    echo: bool = False
    tools: Tools = Tools()
    prefixes: tuple[router_pb2.Chat, ...] = ()
    """The chat up to each cache breakpoint."""
    ignored: tuple[str, ...] = ()
    """Fields of the body that meant nothing: clients send what other servers know."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a request's headers and the settings say, beside its body."""

    session_id: str = ""
    policy: str = ""
    allow_cache_salt: bool = False
    max_choices: int = 128
    max_messages: int = 2048


def parse_stream(fields: Fields) -> StreamOptions:
    stream = fields.flag("stream")
    options = fields.child("stream_options")
    if options is None:
        return StreamOptions(stream)
    if not stream:
        raise InvalidArgument("stream_options only goes with stream: true", field="stream_options")
    return StreamOptions(
        stream, options.flag("include_usage"), options.flag("continuous_usage_stats")
    )


def parse_n(fields: Fields, prompts: int, context: Context) -> int:
    """Answers to each prompt. Raises `InvalidArgument` when there would be too many in all."""
    most = max(1, context.max_choices // prompts)
    n = fields.integer("n", 1, most) or 1
    best_of = fields.integer("best_of", 1, most)
    if best_of is not None and best_of != n:
        raise InvalidArgument.of("best_of", best_of, f"n ({n}): answers are not ranked")
    return n


def common(
    fields: Fields, context: Context, sampling: common_pb2.SamplingParams
) -> router_pb2.GenerateRequest:
    """A request with everything but its input."""
    fields.refuse("use_beam_search", "only sampling is", False)
    salt = fields.text("cache_salt")
    return router_pb2.GenerateRequest(
        model=fields.text("model"),
        sampling=sampling,
        policy=fields.text("policy") or context.policy,
        # A salt that anybody can choose protects nobody: it counts where the router says so.
        tenant=salt if context.allow_cache_salt else "",
        priority=fields.integer("priority", -(1 << 31), (1 << 31) - 1) or 0,
        hints=parse_hints(fields, context.session_id),
    )


def with_input(
    base: router_pb2.GenerateRequest, given: router_pb2.GenerateRequest
) -> router_pb2.GenerateRequest:
    """`base` with the input of `given`."""
    found = router_pb2.GenerateRequest()
    found.CopyFrom(base)
    found.MergeFrom(given)
    return found
