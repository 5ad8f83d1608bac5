"""What can be wrong with a stored run."""

from __future__ import annotations


class StoreError(RuntimeError):
    """A file that cannot be used: damaged, forged, of another version, driven by another process, or not ours at all."""
