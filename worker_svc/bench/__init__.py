"""Benchmarks of the worker; each returns the dict that `kvroute bench ... --json` prints."""
