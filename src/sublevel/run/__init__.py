"""Runs: the loop around the engine, from the start to the result."""
