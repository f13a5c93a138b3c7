"""Sampling, prompts, hints and tools out of a body."""

from __future__ import annotations

from typing import Any

import pytest

from kvroute.errors import InvalidArgument
from kvroute.tokens import pack_tokens
from kvroute.v1 import common_pb2
from router_svc.http.call import Call, Context
from router_svc.http.chat import parse_chat
from router_svc.http.completions import parse_completion

USER = [{"role": "user", "content": "hi"}]


def completion(**fields: Any) -> Call:
    return parse_completion({"prompt": "x"} | fields, Context())


def chat(**fields: Any) -> Call:
    return parse_chat({"messages": USER} | fields, Context())


def sampling(**fields: Any) -> common_pb2.SamplingParams:
    return completion(**fields).requests[0].sampling


def test_defaults_are_openais() -> None:
    found = sampling()
    assert found.temperature == 1.0
    assert found.max_tokens == 0
    assert not found.HasField("seed")


def test_every_sampling_field_arrives() -> None:
    found = sampling(
        max_tokens=7,
        min_tokens=2,
        temperature=0,
        top_p=0.5,
        top_k=-1,
        min_p=0.25,
        seed=-1,
        stop=["a", "b"],
        stop_token_ids=[3],
        ignore_eos=True,
        repetition_penalty=1.0,
        presence_penalty=-2,
        frequency_penalty=2,
        logit_bias={"5": -100},
        logprobs=None,
    )
    assert found == common_pb2.SamplingParams(
        max_tokens=7,
        min_tokens=2,
        top_p=0.5,
        min_p=0.25,
        seed=(1 << 64) - 1,
        stop=["a", "b"],
        stop_token_ids=[3],
        ignore_eos=True,
        repetition_penalty=1.0,
        presence_penalty=-2,
        frequency_penalty=2,
        logit_bias={5: -100},
    )


def test_a_top_p_of_zero_keeps_the_likeliest_token_only() -> None:
    assert 0 < sampling(top_p=0).top_p < 1e-5


def test_the_chat_limit_prefers_the_newer_name() -> None:
    call = chat(max_tokens=5, max_completion_tokens=9)
    assert call.requests[0].sampling.max_tokens == 9
    assert chat(max_tokens=5).requests[0].sampling.max_tokens == 5


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"temperature": -1}, "temperature"),
        ({"temperature": 1e300}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"top_k": 1 << 40}, "top_k"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1 << 60}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"seed": 1 << 70}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"stop": ["a", 1]}, "stop[1]"),
        ({"stop": [""]}, "stop[0]"),
        ({"stop": "x" * 300}, "stop"),
        ({"stop": ["a"] * 17}, "stop"),
        ({"stop": 5}, "stop"),
        ({"stop_token_ids": [-1]}, "stop_token_ids[0]"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"logit_bias": {"1": "y"}}, "logit_bias.1"),
        ({"logit_bias": [1]}, "logit_bias"),
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"prompt": ["a", "b"], "n": 65}, "n"),
        ({"best_of": 3}, "best_of"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"suffix": "x"}, "suffix"),
        ({"logprobs": 21}, "logprobs"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"prompt": None}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": {}}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"prompt": ["a", 5]}, "prompt[1]"),
        ({"prompt": ["a", ""]}, "prompt[1]"),
        ({"prompt": [1, "a"]}, "prompt[1]"),
        ({"prompt": [1, True]}, "prompt[1]"),
        ({"prompt": [1, 2.5]}, "prompt[1]"),
        ({"prompt": [1, -2]}, "prompt[1]"),
        ({"prompt": [1, 1 << 32]}, "prompt[1]"),
        ({"prompt": [[1], []]}, "prompt[1]"),
        ({"prompt": ["a"] * 129}, "prompt"),
        ({"prompt": "\ud800"}, "prompt"),
        ({"prompt": [1], "echo": True}, "echo"),
        ({"priority": 1 << 31}, "priority"),
        ({"session_id": "x" * 300}, "session_id"),
        ({"prompt_cache_retention": "forever"}, "prompt_cache_retention"),
        ({"cache_control": {"type": "ephemeral", "ttl": "2d"}}, "cache_control.ttl"),
        ({"end_session": "yes"}, "end_session"),
    ],
)
def test_a_wrong_field_of_a_completion_is_named(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        completion(**fields)
    assert caught.value.field == named


@pytest.mark.parametrize(
    ("prompt", "inputs"),
    [
        ("a b", ["a b"]),
        (["a", "b"], ["a", "b"]),
        ([1, 2], [pack_tokens([1, 2])]),
        ([[1], [2, 3]], [pack_tokens([1]), pack_tokens([2, 3])]),
        (["a", [2]], ["a", pack_tokens([2])]),
    ],
)
def test_prompts_come_in_every_form(prompt: Any, inputs: list[Any]) -> None:
    call = completion(prompt=prompt, n=2)
    found = [getattr(one, str(one.WhichOneof("input"))) for one in call.requests]
    assert found == inputs
    assert call.n == 2


def test_extension_fields_arrive() -> None:
    context = Context(session_id="header", policy="random", allow_cache_salt=True)
    body = {
        "prompt": "x",
        "model": "m",
        "priority": -3,
        "cache_salt": "s",
        "end_session": True,
        "prompt_cache_retention": "24h",
        "return_token_ids": True,
    }
    request = parse_completion(body, context).requests[0]
    assert (request.model, request.policy, request.priority) == ("m", "random", -3)
    assert request.tenant == "s"
    assert request.hints == common_pb2.ReuseHints(
        retention=common_pb2.CACHE_RETENTION_LONG, session_id="header", end_session=True
    )
    own = parse_completion(body | {"policy": "lbgr_plus", "session_id": "body"}, context)
    assert own.requests[0].policy == "lbgr_plus"
    assert own.requests[0].hints.session_id == "body"


def test_a_cache_salt_is_ignored_unless_allowed() -> None:
    assert completion(cache_salt="s").requests[0].tenant == ""


def test_unknown_fields_are_ignored_and_known() -> None:
    assert completion(user="me", frobnicate=1).ignored == ("user", "frobnicate")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"tools": [{"type": "retrieval"}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"function": {"name": ""}}]}, "tools[0].function.name"),
        ({"tools": [{"function": {"name": "f", "parameters": 1}}]}, "tools[0].function.parameters"),
        ({"tools": 1}, "tools"),
        ({"tools": [{"function": {"name": "f"}}], "tool_choice": "required"}, "tool_choice"),
        (
            {
                "tools": [{"function": {"name": "f"}}],
                "tool_choice": {"type": "function", "function": {"name": "f"}},
            },
            "tool_choice",
        ),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"tool_choice": "perhaps"}, "tool_choice"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format"),
        ({"logprobs": 1}, "logprobs"),
        ({"top_logprobs": 1}, "top_logprobs"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"chat_template": "{{ x }}"}, "chat_template"),
        ({"chat_template_kwargs": [1]}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"x": float("inf")}}, "chat_template_kwargs"),
    ],
)
def test_a_wrong_field_of_a_chat_is_named(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        chat(**fields)
    assert caught.value.field == named


def test_tools_go_to_the_template_without_cache_marks() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    call = chat(tools=[tool | {"cache_control": {"type": "ephemeral"}}])
    assert call.requests[0].chat.tools_json == (
        '[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]'
    )
    assert call.tools.active


def test_a_choice_of_none_keeps_tools_out() -> None:
    call = chat(tools=[{"function": {"name": "f"}}], tool_choice="none")
    assert call.requests[0].chat.tools_json == ""
    assert not call.tools.active


def test_harmless_values_of_unserved_fields_pass() -> None:
    chat(response_format={"type": "text"}, logprobs=False, top_logprobs=0, modalities=["text"])
    completion(suffix="", logprobs=None, use_beam_search=False, best_of=1)
