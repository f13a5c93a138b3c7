"""Subcommands of `kvroute` that measure; `kvroute/cli/main.py` imports each on first use."""
