"""Token ids as they travel: one bytes field of little-endian uint32, never a list of varints."""

from __future__ import annotations

import struct
from collections.abc import Sequence

TOKEN_BYTES = 4


def pack_tokens(tokens: Sequence[int]) -> bytes:
    """Raises `struct.error` for an id that is negative or needs more than 32 bits."""
    return struct.pack(f"<{len(tokens)}I", *tokens)


def unpack_tokens(token_ids: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(token_ids) // TOKEN_BYTES}I", token_ids))
