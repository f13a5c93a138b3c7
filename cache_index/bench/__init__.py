"""Measurements of the control plane: pure functions that return one JSON-able dict each."""
