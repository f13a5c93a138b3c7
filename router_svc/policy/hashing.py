"""Stable hashes for policies that place prompts by their first tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

PREFIX_TOKENS = 256
PREFIX_BLOCKS_MIN = 1
PREFIX_LONG_BLOCKS = 3
_MASK = (1 << 64) - 1


def mix64(value: int) -> int:
    """A permutation of 64-bit integers with full avalanche (the finalizer of MurmurHash3)."""
    value &= _MASK
    value ^= value >> 33
    value = value * 0xFF51AFD7ED558CCD & _MASK
    value ^= value >> 33
    value = value * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33


@lru_cache(maxsize=4096)
def worker_hash(worker_id: str) -> int:
    """64 bits of the worker's id, the same in every process."""
    return int.from_bytes(hashlib.blake2b(worker_id.encode(), digest_size=8).digest(), "little")


def rendezvous(key: int, worker_id: str, salt: int = 0) -> int:
    """The worker's rank for `key` (rendezvous hashing): the lowest rank owns the key, and a worker
    that comes or goes moves only the keys it owns.
    """
    return mix64(mix64(key + salt * 0x9E3779B97F4A7C15) ^ worker_hash(worker_id))


def prefix_key(keys: Sequence[int], block_size: int) -> int | None:
    """Key of the block that ends the first 256 tokens (three blocks where blocks are longer).

    Keys are cumulative, so one stands for all before it. None for a prompt without a full block.
    """
    wanted = (
        max(PREFIX_BLOCKS_MIN, PREFIX_TOKENS // block_size)
        if block_size < 2 * PREFIX_TOKENS
        else PREFIX_LONG_BLOCKS
    )
    index = min(len(keys), wanted) - 1
    return keys[index] if index >= 0 else None
