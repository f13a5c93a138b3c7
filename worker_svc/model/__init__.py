"""HuggingFace models: loading, checking, stepping."""
