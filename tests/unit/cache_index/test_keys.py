from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import sys
from dataclasses import replace

import pytest

from cache_index.base import BlockKey
from cache_index.keys import KeySpace, check_vector, index_keys
from kvroute.tokens import pack_tokens, unpack_tokens

SPACE = KeySpace(model_id="m", revision="r1", dtype="float32", block_size=4, secret=b"s")
GOLDEN = [
    "178a6ef13459647f6a154dd38a45e4f6",
    "12e7ac057ab85d47ad067744ca3db56b",
    "eb3d7605122bc758e875c2e54a07b4d6",
    "0885610f25c94998c6bfb2e4a66ba2b2",
]


def test_keys_equal_the_definition_written_out_plainly() -> None:
    def frame(part: bytes) -> bytes:
        return struct.pack("<I", len(part)) + part

    parts = [b"sha256-cumulative-1", b"s", b"m", b"r1", b"float32", b"", b"", struct.pack("<I", 4)]
    root = b"".join(map(frame, parts))
    tokens = pack_tokens(range(1, 14))
    expected = [hashlib.sha256(root + tokens[: 16 * n]).digest()[:16] for n in (1, 2, 3)]
    assert SPACE.keys(tokens) == expected


PROGRAM = """
from cache_index.keys import *
space = KeySpace(model_id="m", revision="r1", dtype="float32", block_size=4, secret=b"s")
print(check_vector(), check_vector(b"s"), *(k.hex() for k in space.keys(pack_tokens(range(9)))))
"""


def test_golden_vectors_hold_under_any_hash_seed() -> None:
    seen = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for seed in ("0", "1")
    ]
    assert seen[0] == seen[1] == GOLDEN


def test_chain_that_grows_token_by_token_equals_one_made_at_once() -> None:
    tokens = pack_tokens([7] * 41)
    chain = SPACE.chain()
    for start in range(0, len(tokens), 4):
        chain.extend(tokens[start : start + 4])
    assert chain.keys == SPACE.keys(tokens)
    assert len(chain.keys) == 10


@pytest.mark.parametrize(
    "other",
    [
        replace(SPACE, model_id="n"),
        replace(SPACE, revision="r2"),
        replace(SPACE, dtype="bfloat16"),
        replace(SPACE, adapter="x"),
        replace(SPACE, tenant="x"),
        replace(SPACE, secret=b"t"),
        replace(SPACE, model_id="mr", revision="1"),
    ],
)
def test_spaces_that_differ_anywhere_share_no_key(other: KeySpace) -> None:
    tokens = pack_tokens(range(16))
    assert not set(SPACE.keys(tokens)) & set(other.keys(tokens))


def test_token_in_front_changes_every_key_behind_it() -> None:
    one, two = SPACE.keys(pack_tokens(range(16))), SPACE.keys(pack_tokens([99, *range(1, 16)]))
    assert not set(one) & set(two)


def test_index_keys_are_the_first_eight_bytes() -> None:
    assert index_keys([BlockKey(bytes(range(16)))]) == [int.from_bytes(bytes(range(8)), "little")]
    assert index_keys([]) == []


def test_tokens_travel_as_little_endian_words() -> None:
    assert pack_tokens([1, 2**32 - 1]) == b"\x01\0\0\0\xff\xff\xff\xff"
    assert unpack_tokens(pack_tokens([3, 1, 2])) == [3, 1, 2]


def test_check_vector_tells_secrets_apart() -> None:
    assert check_vector() != check_vector(b"x")
