"""`python -m kvroute` is the `kvroute` command."""

from __future__ import annotations

from kvroute.cli.main import main

main()
