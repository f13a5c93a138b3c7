"""What the engine needs of a model: the contract between scheduling (pure Python) and tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from kvroute.errors import KvrouteError
from worker_svc.base import Sampling, TokenLogprobs


@dataclass(frozen=True, slots=True)
class Pick:
    """Asks for the next token of a sequence. `tokens` is all of it so far, the last `len -
    prompt_tokens` generated.

    `banned` tokens must not be chosen (stop tokens before `min_tokens`).
    """

    sampling: Sampling
    tokens: Sequence[int]
    prompt_tokens: int
    banned: frozenset[int]


@dataclass(frozen=True, slots=True)
class Row:
    """One sequence's part of a step: `tokens` stand at positions `start`, `start + 1`, ...

    `table` names the blocks of positions 0, block_size, 2 * block_size, ...; it covers the new
    tokens. The K/V of all positions before `start` are in the pool. `pick` is set when the row ends
    the known tokens.
    """

    tokens: Sequence[int]
    start: int
    table: Sequence[int]
    pick: Pick | None


@dataclass(frozen=True, slots=True)
class Picked:
    """The token chosen for a row, with log-probabilities if its sampling asks for them."""

    token: int
    logprobs: TokenLogprobs | None = None


RowResult: TypeAlias = Picked | KvrouteError | None
"""What a row gave: a token, the reason why only this row failed, or nothing (it asked for no
token).
"""


class Runner(Protocol):
    """Owns model and K/V pool. Called from the engine's thread only."""

    @property
    def vocab_size(self) -> int:
        """Token ids are below this."""

    @property
    def max_context(self) -> int:
        """Positions that the model can serve exactly."""

    @property
    def eos(self) -> frozenset[int]:
        """The model's end-of-text tokens."""

    def allocate(self, blocks: int, block_size: int) -> None:
        """Makes the pool, once. Raises `StartError` when memory does not suffice."""

    def run(self, rows: Sequence[Row]) -> Sequence[RowResult]:
        """Computes K/V of all rows' tokens, writes them to the pool, chooses tokens; one result per
        row, in order.

        Rows of one token come first. An exception fails the whole step; the pool's blocks named by
        the rows' tables may then hold anything at the rows' positions.
        """

    def scrub(self, blocks: Sequence[int]) -> None:
        """Overwrites blocks with zeros: what a failed request left there (NaN) must not leak into
        padded reads.
        """
