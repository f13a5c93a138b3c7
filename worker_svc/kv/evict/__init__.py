"""Evictors, one file each; `registry.create` makes them by name."""
