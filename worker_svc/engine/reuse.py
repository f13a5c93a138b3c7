"""What clients say about later use of their blocks, as the one number that the engine needs."""

from __future__ import annotations

from collections.abc import Sequence


def dead_from(
    breakpoints: Sequence[int], *, keep_nothing: bool, in_session: bool, end_session: bool
) -> int | None:
    """The position from which on nothing is expected to be used again; None: no idea.

    breakpoints: prompt lengths in tokens that other requests share. keep_nothing: retention NONE.
    in_session: the request names a session, so its answer is the start of the next prompt, until
    `end_session`.

    >>> dead_from([64, 512], keep_nothing=False, in_session=False, end_session=False)
    512
    >>> dead_from([64], keep_nothing=False, in_session=True, end_session=False) is None
    True
    """
    ends = keep_nothing or end_session
    if in_session and not ends:
        return None
    if breakpoints:
        return max(breakpoints)
    return 0 if ends else None
