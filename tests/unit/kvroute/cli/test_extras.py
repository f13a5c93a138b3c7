"""A missing package is one line that names the extra; a fault of ours stays visible."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvroute.cli.extras import import_extra
from kvroute.errors import StartError


def test_missing_package_names_the_extra() -> None:
    with pytest.raises(StartError, match=r"no_such_package_x is not installed: pip install"):
        import_extra("no_such_package_x.sub", "router")


def test_package_missing_deeper_down_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kv_sample_service.py").write_text("import no_such_package_y\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(StartError, match=r"no_such_package_y .*'kvroute\[worker\]'"):
        import_extra("kv_sample_service", "worker")


def test_missing_module_of_ours_is_our_fault() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_extra("router_svc.no_such_module", "router")


def test_present_module_is_returned() -> None:
    assert import_extra("json", "router").dumps(1) == "1"
