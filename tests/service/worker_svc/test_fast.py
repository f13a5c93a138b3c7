"""The fast tiers give the very tokens that the stock model gives."""

from __future__ import annotations

import copy
import ctypes
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.engine_driver import FakeClock, request, run
from tests.tiny_models import ARCHITECTURES, NEW, llama, with_references
from worker_svc.engine.core import EngineCore
from worker_svc.engine.options import EngineOptions
from worker_svc.fast import library as library_module
from worker_svc.fast.library import open_library
from worker_svc.fast.linear import FastLinear
from worker_svc.fast.siblings import linear_groups
from worker_svc.model.runner import ModelRunner

TIERS = ["native", "onednn"]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def fast_runner(model: Any, tier: str, cache: Path) -> ModelRunner:
    runner = ModelRunner(copy.deepcopy(model))
    swapped = runner.speed_up(cache if tier == "native" else None, smallest=1)
    if tier == "native" and swapped.kernel != "native":
        pytest.skip("no compiler, or no AVX2, on this machine")
    assert swapped.kernel == tier and swapped.calls > 0
    return runner


def answers(runner: ModelRunner, prompts: list[list[int]]) -> list[list[int]]:
    options = EngineOptions(blocks=64, max_batch_tokens=40, max_running=8)
    core = EngineCore(runner, None, options, FakeClock())
    got = run(core, [request(i, tokens, max_tokens=NEW) for i, tokens in enumerate(prompts)])
    return [got.tokens[i] for i in range(len(prompts))]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_tokens_equal_generate(architecture: str, tier: str, cache: Path) -> None:
    model, prompts, expected = with_references(architecture)
    assert answers(fast_runner(model, tier, cache), prompts) == expected


def test_siblings_share_one_call() -> None:
    model = llama()
    names = {module: name for name, module in model.named_modules()}
    groups = linear_groups(model, lambda: model(torch.tensor([[1, 2, 3]]), use_cache=False))
    first = [[names[linear].split("layers.0.")[-1] for linear in group] for group in groups[:4]]
    assert first == [
        ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
        ["self_attn.o_proj"],
        ["mlp.gate_proj", "mlp.up_proj"],
        ["mlp.down_proj"],
    ]


def forgetful(kernel: Any, arguments: Any, table: Any, rows: int) -> None:
    """Every context one token short."""
    blocks, contexts = table[0], table[1] - 1
    arguments.table, arguments.table_width = blocks.data_ptr(), blocks.shape[1]
    arguments.contexts, arguments.rows = contexts.data_ptr(), rows
    kernel(ctypes.byref(arguments))


def test_a_wrong_kernel_would_show(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative controls: siblings in the wrong order, and decode attention that forgets its
    last token.
    """
    model, prompts, expected = with_references("llama")
    runner = fast_runner(model, "native", cache)
    for module in runner._model.modules():
        if isinstance(module, FastLinear) and not module._alone and not module._last:
            module._start = 0 if module._start else module._start + module.out_features // 2
    wrong = answers(runner, prompts)
    assert sum(a != b for a, b in zip(wrong, expected, strict=True)) >= 6

    runner = fast_runner(model, "native", cache)
    monkeypatch.setattr(runner.paged.kernel, "_call", forgetful)
    wrong = answers(runner, prompts)
    assert sum(a != b for a, b in zip(wrong, expected, strict=True)) >= 6


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7, 12, 13, 47, 97])
@pytest.mark.parametrize(
    ("inputs", "outputs", "bias"), [(64, 96, True), (65, 33, False), (17, 5, True)]
)
def test_packed_linears_equal_plain_ones(
    rows: int, inputs: int, outputs: int, bias: bool, cache: Path
) -> None:
    from worker_svc.fast.packed import NativePacked, OneDnnPacked

    torch.manual_seed(0)
    parts = [nn.Linear(inputs, outputs, bias=bias), nn.Linear(inputs, 7, bias=not bias)]
    x = torch.randn(rows, inputs)
    with torch.inference_mode():
        wanted = torch.cat([part(x) for part in parts], -1)
        kinds: list[Any] = [OneDnnPacked(parts)]
        library = open_library(cache)
        if library is not None:
            kinds.append(NativePacked(parts, library))
        for packed in kinds:
            torch.testing.assert_close(packed.apply(x), wanted, rtol=1e-5, atol=1e-5)


def test_without_a_compiler_the_native_tier_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_module, "_COMPILERS", ("no-such-compiler",))
    monkeypatch.delenv("CXX", raising=False)
    assert open_library(tmp_path) is None
    monkeypatch.setattr(library_module, "_cpu_flags", frozenset)
    assert open_library(tmp_path) is None


def test_other_dtypes_are_left_alone() -> None:
    runner = ModelRunner(llama().to(torch.bfloat16))
    assert runner.speed_up(None).kernel == "torch"
