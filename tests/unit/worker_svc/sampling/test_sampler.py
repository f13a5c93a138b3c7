from __future__ import annotations

from collections import Counter

import pytest
import torch

from kvroute.errors import KvrouteError
from worker_svc.base import Sampling
from worker_svc.engine.base import Pick, Picked
from worker_svc.sampling.sampler import choose, sample
from worker_svc.sampling.uniform import uniform

LOGITS = torch.log(torch.tensor([0.05, 0.5, 0.1, 0.3, 0.05]))
EVEN = [i / 2000 for i in range(2000)]


def pick(tokens: list[int] | None = None, prompt: int = 1, **sampling: object) -> Pick:
    known = tokens if tokens is not None else [0]
    return Pick(Sampling(**sampling), known, prompt, frozenset())  # type: ignore[arg-type]


def one(logits: torch.Tensor, asked: Pick) -> int:
    (result,) = choose(logits[None], [asked])
    assert isinstance(result, Picked)
    return result.token


def shares(**sampling: object) -> dict[int, float]:
    """Share of each token over evenly spread random numbers."""
    settings = Sampling(temperature=1.0, **sampling) if "temperature" not in sampling else None
    settings = settings or Sampling(**sampling)  # type: ignore[arg-type]
    counts = Counter(sample(LOGITS, settings, number) for number in EVEN)
    return {token: count / len(EVEN) for token, count in counts.items()}


def test_sampling_follows_the_probabilities() -> None:
    assert shares() == pytest.approx({0: 0.05, 1: 0.5, 2: 0.1, 3: 0.3, 4: 0.05}, abs=0.002)


def test_temperature_sharpens() -> None:
    assert shares(temperature=0.5)[1] == pytest.approx(0.25 / 0.355, abs=0.002)


@pytest.mark.parametrize(
    ("cut", "kept"),
    [
        ({"top_k": 2}, {1, 3}),
        ({"top_p": 0.75}, {1, 3}),
        ({"top_p": 0.81}, {1, 2, 3}),
        ({"min_p": 0.5}, {1, 3}),
        ({"top_k": 3, "top_p": 0.5}, {1}),
        ({"top_k": 1}, {1}),
        ({"top_p": 1e-6}, {1}),
    ],
)
def test_cuts_keep_the_likeliest(cut: dict[str, object], kept: set[int]) -> None:
    assert set(shares(**cut)) == kept


def test_a_nucleus_larger_than_the_first_look_is_found() -> None:
    logits = torch.zeros(1000)
    seen = {sample(logits, Sampling(temperature=1, top_p=0.9), i / 1000) for i in range(1000)}
    assert 880 <= len(seen) <= 920


def test_random_numbers_are_a_function_of_seed_and_position() -> None:
    numbers = [uniform(7, position) for position in range(2000)]
    assert numbers == [uniform(7, position) for position in range(2000)]
    assert all(0 <= number < 1 for number in numbers)
    assert sum(numbers) / 2000 == pytest.approx(0.5, abs=0.03)
    assert uniform(8, 0) != numbers[0] and uniform(2**63, 1) != uniform(0, 1)


def test_a_token_does_not_depend_on_its_batch() -> None:
    torch.manual_seed(0)
    logits = torch.randn(6, 50)
    asked = [pick([1] * (i + 1), temperature=0.9, top_p=0.8, seed=i) for i in range(6)]
    asked[2] = pick([1, 2, 3], logit_bias={4: 3.0})
    together = choose(logits, asked)
    alone = [choose(logits[i : i + 1], asked[i : i + 1])[0] for i in range(6)]
    assert together == alone


def test_penalties_act_on_what_was_seen() -> None:
    logits = torch.tensor([1.0, 2.0, 1.9, -1.0])
    assert one(logits, pick()) == 1
    assert one(logits, pick([1], 1, repetition_penalty=1.2)) == 2
    assert one(logits, pick([1], 1, presence_penalty=0.5)) == 1  # 1 is prompt, not output
    assert one(logits, pick([0, 1], 1, presence_penalty=0.5)) == 2
    assert one(logits, pick([0, 1], 1, frequency_penalty=0.05)) == 1
    assert one(logits, pick([0, 1, 1, 1], 1, frequency_penalty=0.05)) == 2
    negative = torch.tensor([-1.0, -1.1])
    assert one(negative, pick([0], 1, repetition_penalty=1.5)) == 1


def test_bias_and_bans() -> None:
    logits = torch.tensor([1.0, 2.0, 1.9])
    assert one(logits, pick(logit_bias={0: 5.0})) == 0
    assert one(logits, Pick(Sampling(), [0], 1, frozenset({1}))) == 2


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_row_that_is_not_finite_fails_alone(bad: float) -> None:
    logits = torch.tensor([[0.0, 1.0], [bad, 0.0], [1.0, 0.0]])
    first, second, third = choose(logits, [pick(), pick(temperature=1.0), pick()])
    assert first == Picked(1) and third == Picked(0)
    assert isinstance(second, KvrouteError)


def test_logprobs_are_the_models_own() -> None:
    asked = pick(temperature=0.5, logprobs=2, logit_bias={0: 50.0})
    (result,) = choose(LOGITS[None], [asked])
    assert isinstance(result, Picked) and result.token == 0 and result.logprobs is not None
    assert result.logprobs.logprob == pytest.approx(float(LOGITS[0]), abs=1e-5)
    assert [token for token, _ in result.logprobs.top] == [1, 3]
    assert result.logprobs.top[0][1] == pytest.approx(float(LOGITS[1]), abs=1e-5)
    (plain,) = choose(LOGITS[None], [pick(logprobs=0)])
    assert isinstance(plain, Picked) and plain.logprobs is not None and plain.logprobs.top == ()
