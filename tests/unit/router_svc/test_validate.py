"""Bad requests: the status, and that field, value and limit are named."""

from __future__ import annotations

import dataclasses

import pytest

from cache_index.identity import ModelIdentity
from kvroute.errors import InvalidArgument
from kvroute.tokens import pack_tokens
from kvroute.v1 import common_pb2, router_pb2
from router_svc.validate import check_request, check_tokens

IDENTITY = ModelIdentity(served_name="m", vocab_size=1000, max_context=64)
POLICIES = ("lbgr_plus", "random")

Sampling = common_pb2.SamplingParams
Request = router_pb2.GenerateRequest


def message(role: str, content: str) -> router_pb2.ChatMessage:
    return router_pb2.ChatMessage(role=role, content=content)


BAD = [
    (Request(), "prompt", "exactly one"),
    (Request(prompt=""), "prompt", "at least one character"),
    (Request(token_ids=b""), "token_ids", "at least one token"),
    (Request(token_ids=b"abc"), "token_ids", "multiple of 4"),
    (Request(chat=router_pb2.Chat()), "chat.messages", "at least one message"),
    (
        Request(chat=router_pb2.Chat(messages=[message("", "x")])),
        "chat.messages[0].role",
        "user, assistant",
    ),
    (
        Request(chat=router_pb2.Chat(messages=[message("user", "x")], tools_json="{")),
        "chat.tools_json",
        "JSON",
    ),
    (
        Request(chat=router_pb2.Chat(messages=[message("user", "x")], template_kwargs_json="[]")),
        "chat.template_kwargs_json",
        "JSON object",
    ),
    (Request(prompt="x", policy="best"), "policy", "lbgr_plus, random"),
    (Request(prompt="x", sampling=Sampling(temperature=-1)), "sampling.temperature", "0 or more"),
    (
        Request(prompt="x", sampling=Sampling(temperature=float("nan"))),
        "sampling.temperature",
        "between 0 and 100",
    ),
    (Request(prompt="x", sampling=Sampling(top_p=1.5)), "sampling.top_p", "between 0 and 1"),
    (Request(prompt="x", sampling=Sampling(min_p=2)), "sampling.min_p", "between 0 and 1"),
    (Request(prompt="x", sampling=Sampling(top_k=1 << 21)), "sampling.top_k", "at most"),
    (Request(prompt="x", sampling=Sampling(n=2)), "sampling.n", "not served yet"),
    (Request(prompt="x", sampling=Sampling(logprobs=21)), "sampling.logprobs", "at most 20"),
    (
        Request(prompt="x", sampling=Sampling(max_tokens=4, min_tokens=5)),
        "sampling.min_tokens",
        "at most max_tokens, 4",
    ),
    (Request(prompt="x", sampling=Sampling(stop=["", "a"])), "sampling.stop[0]", "1 to 256"),
    (Request(prompt="x", sampling=Sampling(stop=["a"] * 17)), "sampling.stop", "at most 16"),
    (Request(prompt="x", model="m" * 300), "model", "at most 256"),
]


@pytest.mark.parametrize(("request_", "field", "limit"), BAD, ids=[field for _, field, _ in BAD])
def test_a_wrong_field_is_named_with_its_limit(request_: Request, field: str, limit: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_request(request_, POLICIES)
    assert caught.value.field == field
    assert limit in caught.value.limit
    assert field.split("[")[0] in str(caught.value)


def test_a_good_request_passes() -> None:
    check_request(
        Request(prompt="x", policy="random", sampling=Sampling(temperature=0.7, top_p=0.9)),
        POLICIES,
    )


TOKEN_CASES = [
    ([1000], Sampling(max_tokens=1), "token_ids[0]", "below 1000"),
    ([1, 2, 5000, 3], Sampling(max_tokens=1), "token_ids[2]", "below 1000"),
    (list(range(64)), Sampling(max_tokens=1), "token_ids", "below 64"),
    (list(range(60)), Sampling(max_tokens=5), "sampling.max_tokens", "at most 4"),
    ([1], Sampling(max_tokens=1, stop_token_ids=[1000]), "sampling token id", "below 1000"),
]


@pytest.mark.parametrize(("tokens", "sampling", "field", "limit"), TOKEN_CASES)
def test_tokens_must_fit_the_model(
    tokens: list[int], sampling: common_pb2.SamplingParams, field: str, limit: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_tokens(pack_tokens(tokens), sampling, IDENTITY, "token_ids")
    assert caught.value.field == field
    assert limit in caught.value.limit


def test_an_empty_tokenization_names_the_prompt() -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_tokens(b"", Sampling(max_tokens=1), IDENTITY, "prompt")
    assert caught.value.field == "prompt"


def test_a_prompt_that_just_fits_passes() -> None:
    identity = dataclasses.replace(IDENTITY, max_context=8)
    check_tokens(pack_tokens(range(6)), Sampling(max_tokens=2), identity, "token_ids")
