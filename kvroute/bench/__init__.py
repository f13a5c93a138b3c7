"""What all benchmarks share: the common keys of their JSON line, their rivals, their tables."""
