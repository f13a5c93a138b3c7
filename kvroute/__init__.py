"""kvroute: prefix-aware serving of HuggingFace models."""

__version__ = "0.1.0"
