"""The paper: its theory, its figures, and studies beyond them."""
