"""Loads a HuggingFace causal language model, or says in one line why it cannot."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
import torch
import transformers

from kvroute.errors import StartError
from worker_svc.model.memory import available_bytes

_log = structlog.get_logger(__name__)

_DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """`tokenizer` is None when the model has none: it then serves token ids only."""

    model: Any
    tokenizer: Any | None
    dtype: str
    revision: str


def load(
    name: str,
    *,
    dtype: str = "auto",
    revision: str = "",
    device: str = "cpu",
    trust_remote_code: bool = False,
) -> Loaded:
    """`name` is a directory written by `save_pretrained`, or a name on the model hub. Raises
    `StartError`.
    """
    kind = _dtype(dtype, device)
    path = _local(name)
    common: dict[str, Any] = {"trust_remote_code": trust_remote_code}
    if path is not None:
        _check_memory(path, kind)
    elif revision:
        common = common | {"revision": revision}
    place = str(path or name)
    model = _load_model(place, kind, device, common)
    return Loaded(
        model=model,
        tokenizer=_load_tokenizer(place, common),
        dtype=str(model.dtype).removeprefix("torch."),
        revision=revision or str(getattr(model.config, "_commit_hash", None) or ""),
    )


def _dtype(name: str, device: str) -> torch.dtype | str:
    if name == "auto":
        # CPUs without bfloat16 instructions are several times slower in it.
        return torch.float32 if device == "cpu" else "auto"
    if name not in _DTYPES:
        raise StartError(f"dtype is {name!r}; it must be auto or one of {', '.join(_DTYPES)}")
    return _DTYPES[name]


def _local(name: str) -> Path | None:
    """The directory that `name` means; None: a hub name."""
    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise StartError(f"model directory {name} has no config.json; is it a saved model?")
        return path
    if path.exists():
        raise StartError(f"model {name} is a file; it must be a directory with config.json")
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise StartError(f"model directory {name} does not exist")
    return None


def _check_memory(path: Path, dtype: torch.dtype | str) -> None:
    """Refuses what cannot fit, before the kernel's out-of-memory killer has its say."""
    stored = sum(file.stat().st_size for file in path.glob("*.safetensors"))
    free = available_bytes()
    if not stored or free is None or dtype == "auto":
        return
    try:
        own = json.loads((path / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise StartError(f"config.json of model {path} is not valid JSON") from error
    name = str(own.get("dtype") or own.get("torch_dtype") or "float32")
    assert isinstance(dtype, torch.dtype)
    need = stored * dtype.itemsize // _DTYPES.get(name, torch.float32).itemsize
    if need > free:
        raise StartError(
            f"model {path} needs {need / 2**30:.1f} GiB of memory as {str(dtype)[6:]},"
            f" {free / 2**30:.1f} GiB are free; use a smaller model or dtype"
        )


def _load_model(place: str, dtype: torch.dtype | str, device: str, common: dict[str, Any]) -> Any:
    logging.getLogger("transformers").setLevel(logging.ERROR)
    transformers.utils.logging.disable_progress_bar()
    try:
        found: Any = transformers.AutoModelForCausalLM.from_pretrained(
            place,
            dtype=dtype,
            use_safetensors=True,
            output_loading_info=True,
            **common,
        )
        model, info = found
        model = model.to(device).eval()
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise StartError(
            f"no memory to load model {place}; use a smaller model or dtype"
        ) from error
    except (
        Exception
    ) as error:  # Libraries below raise whatever they like; all of it means "cannot load".
        raise StartError(_explain(place, error)) from error
    # transformers fills missing weights with random numbers and only warns: such a model must not
    # serve.
    missing = sorted(info["missing_keys"]) or sorted(str(key) for key in info["mismatched_keys"])
    if missing:
        raise StartError(
            f"model {place} lacks {len(missing)} weights, such as {missing[0]}: incomplete files"
        )
    return model


def _load_tokenizer(place: str, common: dict[str, Any]) -> Any | None:
    try:
        return transformers.AutoTokenizer.from_pretrained(place, **common)
    except Exception as error:
        _log.warning(
            "no tokenizer: this worker takes token ids only", model=place, error=_first_line(error)
        )
        return None


def _explain(place: str, error: Exception) -> str:
    text = _first_line(error)
    if "not enough memory" in text or "can't allocate memory" in text:
        return f"no memory to load model {place}; use a smaller model or dtype"
    if type(error).__name__ == "SafetensorError":
        return f"the weights of model {place} are corrupt ({text}); fetch them again"
    if "trust_remote_code" in text:
        return (
            f"model {place} brings code of its own; allow it with trust_remote_code if you trust it"
        )
    return f"cannot load model {place}: {text}"


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
