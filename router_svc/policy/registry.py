"""Policies by name, and by a spec that sets their options: `cache_aware:threshold=0.3`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from router_svc.policy.base import Policy
from router_svc.policy.bounded_hash import BoundedHash, BoundedHashOptions
from router_svc.policy.cache_aware import CacheAware, CacheAwareOptions
from router_svc.policy.dualmap import DualMap
from router_svc.policy.dynamo import Dynamo, DynamoOptions
from router_svc.policy.fixed import RandomChoice, RoundRobin
from router_svc.policy.lbgr import Lbgr, LbgrOptions
from router_svc.policy.lbgr_plus import LbgrPlus
from router_svc.policy.least_load import LeastLoad, PowerOfTwo
from router_svc.policy.llmd import Llmd, LlmdOptions
from router_svc.policy.lmetric import LMetric
from router_svc.policy.preble import Preble, PrebleOptions

DEFAULT = LbgrPlus.name

POLICIES: dict[str, Callable[..., Policy]] = {
    LbgrPlus.name: LbgrPlus,
    Lbgr.name: Lbgr,
    RandomChoice.name: RandomChoice,
    RoundRobin.name: RoundRobin,
    LeastLoad.name: LeastLoad,
    PowerOfTwo.name: PowerOfTwo,
    BoundedHash.name: BoundedHash,
    CacheAware.name: CacheAware,
    # SGLang's policy where prompts share less than half: its default never follows those.
    "cache_aware@0.3": lambda: CacheAware(CacheAwareOptions(threshold=0.3)),
    Llmd.name: Llmd,
    Dynamo.name: Dynamo,
    Preble.name: Preble,
    LMetric.name: LMetric,
    DualMap.name: DualMap,
}

OPTIONS: dict[str, type] = {
    Lbgr.name: LbgrOptions,
    BoundedHash.name: BoundedHashOptions,
    CacheAware.name: CacheAwareOptions,
    Llmd.name: LlmdOptions,
    Dynamo.name: DynamoOptions,
    Preble.name: PrebleOptions,
}


def make(spec: str) -> Policy:
    """A new policy object from `NAME` or `NAME:OPTION=NUMBER,...`.

    Raises:
        KeyError: no policy has this name; `POLICIES` lists those there are.
        ValueError: it has no such option, or the value is no number.
    """
    name, _, text = spec.partition(":")
    kind = POLICIES[name]
    if not text:
        return kind()
    return kind(_options(name, text))


def _options(name: str, text: str) -> Any:
    kind = OPTIONS.get(name)
    known = {} if kind is None else {one.name: one.type for one in fields(kind)}
    values: dict[str, float] = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        if key not in known or kind is None:
            raise ValueError(f"{name} has no option {key!r}; it has: {', '.join(known) or 'none'}")
        try:
            values[key] = int(value) if known[key] == "int" else float(value)
        except ValueError:
            raise ValueError(f"{name}: {key}={value!r} is no number") from None
    assert kind is not None
    return kind(**values)
