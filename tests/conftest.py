"""Fixtures that every tier may use."""

pytest_plugins = ["tests.fakes.valkey"]
