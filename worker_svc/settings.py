"""Every setting of the worker, in one frozen object read once at start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kvroute.settings import setting
from worker_svc.kv.evict.registry import EVICTORS


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    model: str = setting(help="model directory, hub name, or 'demo'", required=True)
    served_name: str = setting("", "name clients ask for; empty: the last part of the model's name")
    revision: str = setting("", "hub revision of the model; empty: the newest")
    dtype: str = setting(
        "auto",
        "number type; auto: float32 on a CPU",
        choices=("auto", "float32", "float16", "bfloat16"),
    )
    device: str = setting("auto", "torch device; auto: cuda where there is one, else cpu")
    listen: str = setting("127.0.0.1:0", "address to listen on, HOST:PORT; port 0 takes any")
    advertise: str = setting("", "address routers connect to; empty: the one listened on")
    redis_url: str = setting(
        "redis://127.0.0.1:6379", "Redis or Valkey: redis://, rediss:// or unix:// URL"
    )
    worker_id: str = setting("", "name of this worker, kept over restarts; empty: drawn at start")
    key_secret: str = setting(
        "", "secret of the block keys; the same for all workers and routers", secret=True
    )
    blocks: int = setting(1024, "KV blocks in the cache", minimum=2)
    block_size: int = setting(16, "tokens in a block", minimum=1, maximum=256)
    max_context: int = setting(
        0, "longest prompt plus output, tokens; 0: the model's own", minimum=0
    )
    max_batch_tokens: int = setting(512, "tokens computed in one step", minimum=1)
    max_running: int = setting(64, "requests computed in one step", minimum=1)
    max_queue: int = setting(1024, "requests waiting; further ones are refused", minimum=1)
    evictor: str = setting(
        "arc_mix", "which cached block goes first", choices=tuple(sorted(EVICTORS))
    )
    look_ahead: float = setting(
        0.5, "share of the cache that queued requests may lock ahead", minimum=0.0, maximum=1.0
    )
    kernel: str = setting(
        "auto",
        "CPU speed tier; auto: the fastest that passes the load-time check",
        choices=("auto", "onednn", "torch"),
    )
    threads: int = setting(0, "CPU threads; 0: torch's default", minimum=0)
    seed: int = setting(0, "seed of the evictor's random choices", minimum=0)
    lease_s: float = setting(
        3.0, "seconds without a sign of life after which routers drop this worker", minimum=0.05
    )
    flush_s: float = setting(
        0.015, "longest wait before cache changes are published", minimum=0.001
    )
    drain_s: float = setting(30.0, "seconds running requests get at shutdown", minimum=0.0)
    max_session_bytes: int = setting(
        64 << 20,
        "bytes kept for a router that reads slowly before its session is ended",
        minimum=1024,
    )
    ready_file: Path | None = setting(None, "write {address, pid} here as JSON once registered")
    log_level: str = setting("info", "log level", choices=("debug", "info", "warning", "error"))
