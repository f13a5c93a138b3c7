"""Through client, router and workers, greedy tokens equal HuggingFace `generate`, token for token."""
