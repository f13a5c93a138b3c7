"""From a loaded model to a runner that is known to be exact, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvroute.errors import Unsupported
from worker_svc.model.loader import load
from worker_svc.model.probe import kind
from worker_svc.model.runner import ModelRunner
from worker_svc.model.self_check import check_tokens, reference_logits, self_check


@dataclass(frozen=True, slots=True)
class Fast:
    """Asks for the fast tiers. `native_cache`: where native kernels are built and kept; None:
    none of these.
    """

    native_cache: Path | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A checked runner. `kernel`: "native", "onednn" or "torch". `error`: the self-check's
    relative error.
    """

    runner: ModelRunner
    kernel: str
    error: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a model can be served; `reason` says why not. `error` is the self-check's
    relative error.
    """

    architecture: str
    supported: bool
    reason: str = ""
    error: float = 0.0


def prepare(model: Any, max_context: int = 0, *, fast: Fast | None = None) -> Prepared:
    """Raises `Unsupported`. Changes the model: its attention for good, with `fast` its linears
    and norms as well.
    """
    try:
        ids = check_tokens(model)
        expected = reference_logits(model, ids)
    except Exception as error:
        text = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise Unsupported(
            f"{kind(model)} cannot be served: it does not run on plain token ids ({text})"
        ) from error
    runner = ModelRunner(model, max_context)
    kernel = "torch" if fast is None else runner.speed_up(fast.native_cache).kernel
    return Prepared(runner, kernel, self_check(model, runner, ids, expected))


def judge(model: Any) -> Verdict:
    """`prepare`, as an answer instead of an error."""
    architecture = str(model.config.model_type)
    try:
        error = prepare(model).error
    except Unsupported as refusal:
        return Verdict(architecture, False, str(refusal))
    return Verdict(architecture, True, error=error)


def check_model(name: str, *, dtype: str = "auto", trust_remote_code: bool = False) -> Verdict:
    """Loads a directory or hub name and judges it: what `kvroute models check` shows. Raises
    `StartError`.
    """
    return judge(load(name, dtype=dtype, trust_remote_code=trust_remote_code).model)
