"""Real token ids and text for a call: each block id becomes a fixed pseudo-random run."""

from __future__ import annotations

import hashlib
from functools import lru_cache

from loadtest.workloads.base import Call

_TEXT = (
    "the of and to in is that it was for on are with as be at one have this from or had by hot but "
    "some what there we can out other were all your when up use word how said an each she which do "
    "their time if will way about many then them would write like so these her long make thing see "
    "him two has look more day could go come did my sound no most number who over know water than "
    "call first people may down side been now find any new work part take get place made live where"
)
WORDS = tuple(_TEXT.split())


@lru_cache(maxsize=8192)
def block_tokens(block: int, count: int, vocabulary: int, seed: int) -> tuple[int, ...]:
    """`count` token ids below `vocabulary`, from sha256 of (seed, block): the same in every process
    and on every machine.
    """
    digest = hashlib.shake_256(f"{seed}/{block}".encode()).digest(4 * count)
    return tuple(
        int.from_bytes(digest[at : at + 4], "little") % vocabulary for at in range(0, 4 * count, 4)
    )


def token_ids(
    call: Call, block_size: int, vocabulary: int, seed: int = 0, first: int = 0
) -> list[int]:
    """The prompt of `call` as `prompt_tokens` ids in [first, first + vocabulary).

    The rest behind its last full block is the call's own, so that no two calls share a partial
    block by chance.
    """
    ids: list[int] = []
    for block in call.blocks[: call.prompt_blocks]:
        ids.extend(block_tokens(block, block_size, vocabulary, seed))
    rest = call.prompt_tokens - len(ids)
    if rest > 0:
        ids.extend(block_tokens(-1 - call.number, rest, vocabulary, seed))
    return [first + token for token in ids]


def text(call: Call, block_size: int, seed: int = 0) -> str:
    """The prompt of `call` as English words, about one per token."""
    return " ".join(WORDS[token] for token in token_ids(call, block_size, len(WORDS), seed))
