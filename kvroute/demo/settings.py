"""Every setting of the demo."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kvroute.settings import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings:
    workers: int = setting(2, "workers to start", minimum=2, maximum=16)
    model: str = setting("demo", "model directory, hub name, or 'demo'")
    prefixes: int = setting(6, "long texts that requests share", minimum=1, maximum=10)
    questions: int = setting(4, "questions on each text", minimum=1, maximum=8)
    prefix_tokens: int = setting(2000, "tokens of each text", minimum=32)
    max_tokens: int = setting(8, "tokens to generate for each request", minimum=1)
    blocks: int = setting(1280, "KV blocks in each worker's cache", minimum=2)
    block_size: int = setting(16, "tokens in a block", minimum=1)
    threads: int = setting(0, "CPU threads of each worker; 0: all cores", minimum=0)
    seed: int = setting(1, "seed of the order of requests", minimum=0)
    redis_url: str = setting("", "Redis or Valkey to use; empty: an embedded Valkey")
    log_dir: Path = setting(Path("~/.local/state/kvroute/demo"), "where the parts write their logs")
    ready_timeout_s: float = setting(600.0, "seconds the fleet may take to get ready", minimum=1)
