"""Loading: what works, and the one line that says why something does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from kvroute.errors import StartError, Unsupported
from tests.tiny_models import build, config, llama
from tests.tiny_tokenizer import tokenizer
from worker_svc.build import build_engine
from worker_svc.engine.options import EngineOptions
from worker_svc.fast.packed import OneDnnPacked
from worker_svc.model import loader
from worker_svc.model import runner as runner_module
from worker_svc.model.limits import context_limit
from worker_svc.model.loader import load
from worker_svc.model.runner import ModelRunner
from worker_svc.model.self_check import check_tokens, reference_logits, self_check


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    llama().save_pretrained(tmp_path)
    return tmp_path


def refusal(path: Path | str, **options: object) -> str:
    with pytest.raises(StartError) as caught:
        load(str(path), **options)  # type: ignore[arg-type]
    text = str(caught.value)
    assert "\n" not in text and len(text) < 500
    return text


def test_a_saved_model_loads_in_float32(saved: Path) -> None:
    loaded = load(str(saved))
    assert loaded.dtype == "float32" and loaded.tokenizer is None


def test_dtype_can_be_chosen(saved: Path) -> None:
    assert load(str(saved), dtype="bfloat16").model.dtype is torch.bfloat16
    assert "float8" in refusal(saved, dtype="float8")


def test_what_is_missing_is_named(saved: Path, tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert "config.json" in refusal(tmp_path / "empty")
    assert "directory" in refusal(saved / "config.json")
    (saved / "model.safetensors").unlink()
    assert "safetensors" in refusal(saved)


def test_corrupt_weights_are_refused(saved: Path) -> None:
    weights = saved / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    assert "corrupt" in refusal(saved)


def test_incomplete_weights_are_refused_instead_of_made_up(saved: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(saved / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, saved / "model.safetensors", {"format": "pt"})
    assert "model.layers.1.mlp.up_proj.weight" in refusal(saved)


def test_a_model_too_large_for_memory_is_refused_before_loading(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "available_bytes", lambda: 1000)
    assert "GiB" in refusal(saved)


def test_a_cache_too_large_for_memory_is_refused(saved: Path) -> None:
    with pytest.raises(StartError, match="use fewer"):
        build_engine(str(saved), EngineOptions(blocks=2**40), lambda report: None, kernel="torch")


def test_facts_describe_the_model(saved: Path) -> None:
    tokenizer().save_pretrained(saved)
    worker = build_engine(
        str(saved), EngineOptions(blocks=8), lambda report: None, max_context=99, kernel="torch"
    )
    facts = worker.facts
    assert (facts.dtype, facts.vocab_size, facts.max_context) == ("float32", 199, 99)
    assert len(facts.tokenizer) == len(facts.chat_template) == 16
    assert facts.kv_bytes_per_token == 4 * 2 * 2 * 16 * 4
    assert (facts.architecture, facts.kernel) == ("llama", "torch") and worker.text.available


def test_a_fast_tier_that_fails_the_check_is_not_used(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def doubled(self: OneDnnPacked, x: torch.Tensor) -> torch.Tensor:
        return apply(self, x) * 2

    apply = OneDnnPacked.apply
    options = EngineOptions(blocks=8)
    monkeypatch.setattr(runner_module.ModelRunner.speed_up, "__defaults__", (1,))
    good = build_engine(str(saved), options, lambda report: None, kernel="onednn")
    assert good.facts.kernel == "onednn"
    monkeypatch.setattr(OneDnnPacked, "apply", doubled)
    wrong = build_engine(str(saved), options, lambda report: None, kernel="onednn")
    assert wrong.facts.kernel == "torch"
    with pytest.raises(StartError, match="kernel"):
        build_engine(str(saved), options, lambda report: None, kernel="cuda")


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({}, 512),
        (
            {
                "rope_parameters": {
                    "rope_type": "longrope",
                    "rope_theta": 10000.0,
                    "original_max_position_embeddings": 64,
                    "short_factor": [1.0] * 8,
                    "long_factor": [2.0] * 8,
                    "factor": 8.0,
                }
            },
            64,
        ),
    ],
)
def test_context_is_capped_where_batches_would_influence_each_other(
    changes: dict[str, object], limit: int
) -> None:
    assert context_limit(config("Llama", **changes)) == limit


def test_the_self_check_passes_a_good_model_and_refuses_a_wrong_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = build(config("Mistral", sliding_window=24))
    ids = check_tokens(model)
    expected = reference_logits(model, ids)
    runner = ModelRunner(model)
    assert self_check(model, runner, ids, expected) < 1e-4

    forward = runner.paged.forward

    def without_window(module: object, *args: object, **kwargs: object) -> torch.Tensor:
        kwargs["sliding_window"] = 23
        return forward(module, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(runner.paged, "forward", without_window)
    with pytest.raises(Unsupported, match="logits are wrong"):
        self_check(model, runner, ids, expected)


def test_a_state_space_model_is_refused_with_the_reason() -> None:
    import transformers

    model = build(
        transformers.MambaConfig(
            vocab_size=99, hidden_size=32, num_hidden_layers=2, state_size=4, pad_token_id=0
        )
    )
    with pytest.raises(Unsupported, match="mamba"):
        ModelRunner(model)


def test_broken_json_is_one_line(saved: Path) -> None:
    (saved / "config.json").write_text("{")
    assert "JSON" in refusal(saved)
    (saved / "config.json").write_text(json.dumps({"model_type": "no-such-type"}))
    assert "no-such-type" in refusal(saved)
