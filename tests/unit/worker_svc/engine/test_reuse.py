from __future__ import annotations

import pytest

from worker_svc.engine.reuse import dead_from


@pytest.mark.parametrize(
    ("breakpoints", "keep_nothing", "in_session", "end_session", "expected"),
    [
        ((), False, False, False, None),
        ((), True, False, False, 0),
        ((64, 32), False, False, False, 64),
        ((64,), False, True, False, None),
        ((64,), False, True, True, 64),
        ((), False, True, True, 0),
        ((64,), True, True, False, 64),
    ],
)
def test_hints_become_one_position(
    breakpoints: tuple[int, ...],
    keep_nothing: bool,
    in_session: bool,
    end_session: bool,
    expected: int | None,
) -> None:
    found = dead_from(
        breakpoints, keep_nothing=keep_nothing, in_session=in_session, end_session=end_session
    )
    assert found == expected
