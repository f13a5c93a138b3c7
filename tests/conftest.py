"""Fixtures that every tier may use."""

pytest_plugins = ["tests.fakes.logs", "tests.fakes.valkey"]
