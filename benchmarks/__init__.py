"""Speed, memory and fairness, measured beside named peers: ``python -m benchmarks --help``."""
