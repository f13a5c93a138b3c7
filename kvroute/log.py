"""Logging: lines for people on a terminal, one JSON object a line otherwise.

    configure("info", "router")
    log = structlog.get_logger()
    log.info("worker joined", worker_id="w1", blocks=2000)

Everything goes to standard error; standard output belongs to results. The standard library's
loggers (grpc, redis, transformers) come out through the same renderer. Prompts and generated text
are never logged: the fields named in `PRIVATE` are replaced by their length, wherever they appear.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from kvroute.errors import SettingsError

LEVELS = ("debug", "info", "warning", "error")

PRIVATE = frozenset({"prompt", "text", "content", "messages", "chat", "token_ids", "completion"})
"""Fields that hold what users wrote or what was generated for them."""


def configure(level: str, service: str, stream: TextIO | None = None) -> None:
    """Sets up structlog and the standard library's root logger; a later call replaces an earlier.

    Raises SettingsError for a level that is not in `LEVELS`.
    """
    if level not in LEVELS:
        raise SettingsError(f"log level is {level!r}; it must be one of {', '.join(LEVELS)}")
    out = sys.stderr if stream is None else stream
    number = getattr(logging, level.upper())
    shared = _shared(service)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.stdlib.LoggerFactory(),
        # Tests and `kvroute up` configure more than once in a process.
        cache_logger_on_first_use=False,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderer(out)],
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    # These report each request or connection at info, which is noise at our info level.
    for noisy in ("httpx", "httpx2", "urllib3", "filelock", "asyncio"):
        logging.getLogger(noisy).setLevel(max(number, logging.WARNING))


def hide_private(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Replaces private fields by their length. O(fields of the event)."""
    for name in PRIVATE & event.keys():
        value = event[name]
        size = len(value) if hasattr(value, "__len__") else 1
        event[name] = f"<hidden, {size}>"
    return event


def _shared(service: str) -> list[Processor]:
    def name_service(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        event.setdefault("service", service)
        return event

    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        name_service,
        hide_private,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _renderer(out: TextIO) -> list[Any]:
    if out.isatty():
        plain = structlog.dev.plain_traceback
        return [structlog.dev.ConsoleRenderer(exception_formatter=plain)]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
