"""Settings of the commands that talk to a router."""

from __future__ import annotations

from dataclasses import dataclass

from kvroute.settings import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    address: str = setting("127.0.0.1:50050", "router to talk to, HOST:PORT")
