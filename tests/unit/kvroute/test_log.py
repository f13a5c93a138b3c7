"""Logging: format by stream, one renderer for all loggers, and no private text."""

from __future__ import annotations

import io
import json
import logging

import pytest
import structlog

from kvroute.errors import SettingsError
from kvroute.log import configure


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


pytestmark = pytest.mark.usefixtures("restore_logging")


def test_json_lines_when_not_on_a_terminal() -> None:
    out = io.StringIO()
    configure("info", "router", out)
    structlog.get_logger().info("joined", worker_id="w1", blocks=5)
    line = json.loads(out.getvalue())
    assert line["event"] == "joined"
    assert (line["service"], line["level"], line["blocks"]) == ("router", "info", 5)
    assert line["timestamp"].endswith("Z")


def test_readable_line_on_a_terminal() -> None:
    out = Terminal()
    configure("info", "router", out)
    structlog.get_logger().info("joined", worker_id="w1")
    assert "joined" in out.getvalue()
    assert not out.getvalue().startswith("{")


def test_standard_library_loggers_use_the_same_renderer() -> None:
    out = io.StringIO()
    configure("info", "worker", out)
    logging.getLogger("grpc").warning("gone %s", "away")
    line = json.loads(out.getvalue())
    assert (line["event"], line["service"], line["level"]) == ("gone away", "worker", "warning")


def test_below_the_level_nothing_is_written() -> None:
    out = io.StringIO()
    configure("warning", "router", out)
    structlog.get_logger().info("quiet")
    logging.getLogger("x").info("quiet")
    assert out.getvalue() == ""


def test_prompt_text_is_never_written() -> None:
    out = io.StringIO()
    configure("debug", "router", out)
    structlog.get_logger().info("request", prompt="my secret", token_ids=[1, 2, 3])
    assert "my secret" not in out.getvalue()
    line = json.loads(out.getvalue())
    assert line["prompt"] == "<hidden, 9>"
    assert line["token_ids"] == "<hidden, 3>"


def test_exceptions_are_one_json_line() -> None:
    out = io.StringIO()
    configure("info", "router", out)
    try:
        raise ValueError("boom")
    except ValueError:
        structlog.get_logger().exception("failed")
    assert "boom" in json.loads(out.getvalue())["exception"]


def test_unknown_level_is_refused() -> None:
    with pytest.raises(SettingsError, match="must be one of debug"):
        configure("loud", "router")
