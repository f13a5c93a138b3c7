"""Every setting of the router, in one frozen object read once at start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kvroute.settings import setting
from router_svc.policy.registry import DEFAULT, POLICIES


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterSettings:
    listen: str = setting("127.0.0.1:50050", "address to listen on, HOST:PORT; port 0 takes any")
    redis_url: str = setting(
        "redis://127.0.0.1:6379", "Redis or Valkey: redis://, rediss:// or unix:// URL"
    )
    router_id: str = setting("", "name of this router; empty: drawn at start")
    policy: str = setting(
        DEFAULT, "routing policy where a request names none", choices=tuple(sorted(POLICIES))
    )
    key_secret: str = setting(
        "", "secret of the block keys; the same for all workers and routers", secret=True
    )
    lease_s: float = setting(
        3.0, "seconds without a sign of life after which a worker is gone", minimum=0.05
    )
    session_ttl_s: float = setting(
        1.5, "seconds after which a dead router's bookings are void", minimum=0.05
    )
    audit_s: float = setting(1.0, "seconds between checks of the view against Redis", minimum=0.02)
    tokenize_timeout_s: float = setting(10.0, "seconds a worker may take to tokenize", minimum=0.01)
    tokenize_cache: int = setting(2048, "texts whose token ids are remembered", minimum=0)
    silence_s: float = setting(
        3.0, "seconds without a frame after which a worker counts as lost", minimum=0.5
    )
    attempts: int = setting(3, "workers tried for one request", minimum=1)
    request_timeout_s: float = setting(
        600.0, "longest life of a request without a deadline", minimum=0.1
    )
    wait_s: float = setting(
        5.0, "seconds a request waits for a first worker to appear", minimum=0.0
    )
    max_requests: int = setting(4096, "requests in flight; further ones are refused", minimum=1)
    max_buffer_bytes: int = setting(
        1 << 20,
        "bytes kept for a client that reads slowly before its request is ended",
        minimum=1024,
    )
    max_prompt_bytes: int = setting(4 << 20, "largest request message", minimum=1024)
    max_tokens_default: int = setting(
        16, "tokens generated where a request sets no max_tokens", minimum=1
    )
    chat_max_tokens_default: int = setting(
        4096, "the same for chats; 0: as many as the context has room for", minimum=0
    )
    http_listen: str = setting(
        "", "address of the OpenAI HTTP front, HOST:PORT; port 0 takes any; empty: no front"
    )
    http_admin_token: str = setting(
        "", "token that /flush_cache asks for; empty: nobody may flush", secret=True
    )
    http_allow_cache_salt: bool = setting(
        False, "let HTTP clients choose their cache_salt, which separates caches like a tenant"
    )
    http_tool_parser: str = setting(
        "auto",
        "form of tool calls in generated text; none: they stay text",
        choices=("auto", "hermes", "llama3", "none"),
    )
    http_max_per_key: int = setting(4096, "open HTTP requests of one API key", minimum=1)
    http_max_choices: int = setting(128, "answers to one HTTP request: prompts times n", minimum=1)
    http_max_messages: int = setting(2048, "messages of a chat over HTTP", minimum=1)
    http_max_header_bytes: int = setting(16384, "largest HTTP header field", minimum=1024)
    http_write_timeout_s: float = setting(
        30.0, "seconds an HTTP client may leave a stream unread", minimum=0.01
    )
    explain_ring: int = setting(1024, "explain records kept in memory", minimum=1)
    seed: int = setting(0, "seed of random choices; 0: drawn at start", minimum=0)
    ready_file: Path | None = setting(None, "write {address, pid} here as JSON once ready")
    log_level: str = setting("info", "log level", choices=("debug", "info", "warning", "error"))
