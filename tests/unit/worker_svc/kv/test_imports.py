"""The block bookkeeping runs in the simulator too: it needs nothing but the standard library."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import worker_svc.kv


def test_only_the_standard_library_is_imported() -> None:
    root = Path(worker_svc.kv.__file__).parent
    files = list(root.rglob("*.py"))
    assert len(files) > 10
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            for name in names:
                own = name.startswith("worker_svc.kv")
                assert own or name.split(".")[0] in sys.stdlib_module_names, f"{path}: {name}"
