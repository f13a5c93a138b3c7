"""What time a worker takes: the cost model that the simulator charges."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from kvroute.errors import KvrouteError


class ProfileError(KvrouteError):
    """A profile file cannot be used."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A step that computes prompt chunks of z tokens at position p, and n decodes over kv tokens,
    takes

        max(floor, sum(prefill_ms * z + attention_ms * z * (p + z / 2)))
        + decode_ms * n + kv_ms * kv     ms,     floor = step_ms if n else idle_step_ms

    The defaults are Llama-3.1-8B on an L40-class card.
    """

    prefill_ms: float = 0.11
    attention_ms: float = 3.5e-6
    step_ms: float = 18.5
    idle_step_ms: float = 5.0
    decode_ms: float = 0.12
    kv_ms: float = 1.5e-4
    chunk_tokens: int = 4096
    max_running: int = 64

    def faster(self, factor: float) -> Profile:
        """The same model on a card `factor` times as fast."""
        times = ("prefill_ms", "attention_ms", "step_ms", "idle_step_ms", "decode_ms", "kv_ms")
        return replace(self, **{name: getattr(self, name) / factor for name in times})


def load_profile(path: Path) -> Profile:
    """A profile from a JSON object of its fields; those left out keep their defaults.

    Raises:
        ProfileError: unreadable, no JSON object, an unknown field, or a value that is not positive.
    """
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ProfileError(f"{path}: no profile: {error}") from None
    known = {one.name for one in fields(Profile)}
    if not isinstance(values, dict) or set(values) - known:
        raise ProfileError(f"{path}: a profile is an object with fields of {sorted(known)}")
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
            raise ProfileError(f"{path}: {name} is {value!r}, not a positive number")
    return replace(Profile(), **values)


def save_profile(profile: Profile, path: Path) -> None:
    path.write_text(json.dumps(asdict(profile), indent=2) + "\n")
