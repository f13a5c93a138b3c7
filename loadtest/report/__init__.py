"""Pictures and one self-contained page out of the JSON lines that benchmarks write."""
