"""Children: ready file, reasons, an orderly end, and that none outlives its parent."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kvroute.errors import StartError
from kvroute.local.children import Child

LIVENESS_S = 30.0

SERVICE = """
import json, os, signal, sys, time
from kvroute.cli import leash
leash.hold()
path = sys.argv[sys.argv.index("--ready-file") + 1]
with open(path + ".part", "w") as file:
    json.dump({"address": "127.0.0.1:5", "pid": os.getpid()}, file)
os.replace(path + ".part", path)
while True:
    time.sleep(60)
"""

BROKEN = """
import sys
print("loading")
print("kvroute: there is no model x", file=sys.stderr)
sys.exit(1)
"""


def program(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", textwrap.dedent(code))


async def test_child_is_ready_and_ends_in_order(tmp_path: Path) -> None:
    child = Child("service", (), tmp_path, program(SERVICE))
    await child.start()
    ready = await child.ready(LIVENESS_S)
    assert (ready.address, ready.pid) == ("127.0.0.1:5", child.pid)
    assert child.running
    await child.stop()
    await child.stop()
    assert not child.running


async def test_child_that_fails_says_why_in_one_line(tmp_path: Path) -> None:
    child = Child("worker-0", (), tmp_path, program(BROKEN))
    await child.start()
    with pytest.raises(StartError) as caught:
        await child.ready(LIVENESS_S)
    assert str(caught.value) == "worker-0 did not start: there is no model x"
    await child.stop()


async def test_child_that_is_too_slow_names_its_log(tmp_path: Path) -> None:
    child = Child("slow", (), tmp_path, program("import time; time.sleep(60)"))
    await child.start()
    with pytest.raises(StartError, match=r"slow was not ready after 0\.1 s; its log is .*slow.log"):
        await child.ready(0.1)
    await child.stop()


async def test_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    parent_code = f"""
    import asyncio, sys
    from pathlib import Path
    from kvroute.local.children import Child

    async def main():
        child = Child("service", (), Path({str(tmp_path)!r}), (sys.executable, "-c", {SERVICE!r}))
        await child.start()
        print((await child.ready({LIVENESS_S})).pid, flush=True)
        await asyncio.sleep(600)

    asyncio.run(main())
    """
    parent = await asyncio.create_subprocess_exec(*program(parent_code), stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(await asyncio.wait_for(parent.stdout.readline(), LIVENESS_S))
    parent.send_signal(signal.SIGKILL)
    await parent.wait()
    async with asyncio.timeout(LIVENESS_S):
        while True:
            if not alive(pid):
                return
            await asyncio.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether the process runs; one that nobody has waited for yet does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
