# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""A curvature in pictures. They need matplotlib: `pip install 'sublevel[plot]'`."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def overview(found: Any, file: str | Path | None = None) -> Any:
    """The four panels."""
    raise NotImplementedError
