"""The engine: one generation of a natural-gradient method."""
