"""The keys that every benchmark's line has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kvroute import __version__
from kvroute.bench import common


def test_line_holds_the_common_keys_and_is_one_line() -> None:
    result = common.common("index", {"text": "a\nb"}, 7) | {"rows": [1]}
    line = common.one_line(result)
    assert "\n" not in line
    assert json.loads(line) == result
    assert list(result) == ["bench", "commit", "config", "seed", "machine", "rows"]
    assert list(result["machine"]) == ["cores", "cpu", "python", "torch"]


def test_commit_is_that_of_the_checkout() -> None:
    assert re.fullmatch(r"[0-9a-f]{12}\+?", common.commit())


def test_commit_of_an_installed_package_is_its_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "site" / "kvroute" / "bench" / "common.py"
    monkeypatch.setattr(common, "__file__", str(file))
    assert common.commit() == __version__


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 3), (0.99, 4), (1.0, 4)])
def test_percentile_is_a_sample(share: float, value: int) -> None:
    assert common.percentile([4, 1, 3, 2], share) == value
