"""A whole small fleet on this machine: child processes, checks before the start, readiness."""
