"""Ends a child process when its parent is gone, however the parent ended.

The parent gives the child a pipe as standard input and keeps the other end. When the parent dies,
even by SIGKILL, the kernel closes that end; the child reads end-of-file, sends itself SIGTERM, and
leaves for good a while later. Works wherever pipes do, with no call between fork and exec.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

GRACE_S = 10.0
"""Seconds for an orderly end before the process is left at once."""


def hold() -> None:
    """Watches standard input in a daemon thread. Call once, early, in the child."""
    threading.Thread(target=_watch, args=(sys.stdin.fileno(),), name="leash", daemon=True).start()


def _watch(fd: int) -> None:
    while os.read(fd, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os._exit(1)
