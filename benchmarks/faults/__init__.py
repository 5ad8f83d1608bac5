"""The parts of `benchmarks/reliability.py`: what goes wrong, who it happens to, how it ends, and how that is judged."""
