"""Paged attention under unmodified transformers models."""
