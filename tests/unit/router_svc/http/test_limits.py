"""Open requests by key."""

from __future__ import annotations

import pytest

from kvroute.errors import Overloaded
from router_svc.http.limits import KeyLimits


def test_a_key_at_its_limit_is_refused_and_others_are_not() -> None:
    limits = KeyLimits(2)
    with limits.hold("a"), limits.hold("a"):
        with pytest.raises(Overloaded) as caught, limits.hold("a"):
            pass
        assert caught.value.retry_after_ms > 0
        with limits.hold("b"), limits.hold(""):
            assert limits.open == 4
            limits.check()
    assert limits.open == 0
    limits.check()
    with limits.hold("a"):
        pass


def test_a_failed_request_gives_its_place_back() -> None:
    limits = KeyLimits(1)
    with pytest.raises(ValueError), limits.hold("a"):
        raise ValueError
    assert limits.open == 0
