"""Policies by name."""

from __future__ import annotations

from collections.abc import Callable

from router_svc.policy.base import Policy
from router_svc.policy.fixed import RandomChoice, RoundRobin
from router_svc.policy.lbgr_plus import LbgrPlus

DEFAULT = LbgrPlus.name

POLICIES: dict[str, Callable[[], Policy]] = {
    kind.name: kind for kind in (LbgrPlus, RoundRobin, RandomChoice)
}


def make(name: str) -> Policy:
    """A new policy object.

    Raises:
        KeyError: no policy has this name; `POLICIES` lists those there are.
    """
    return POLICIES[name]()
