"""Restart strategies."""

from collections.abc import Mapping
from typing import Literal

from sublevel.run.restarts.auto import AutoRestarts
from sublevel.run.restarts.bipop import BIPOP
from sublevel.run.restarts.ipop import IPOP
from sublevel.run.restarts.once import Once
from sublevel.run.restarts.protocol import FinishedRuns, Restarts, Run

STRATEGIES: Mapping[str, type[Restarts]] = {
    "ipop": IPOP,
    "bipop": BIPOP,
    "auto": AutoRestarts,
}
"""Registry: restart strategies by name."""
RestartName = Literal["ipop", "bipop", "auto"]
"""The names, for type checkers."""

__all__ = [
    "BIPOP",
    "IPOP",
    "STRATEGIES",
    "AutoRestarts",
    "FinishedRuns",
    "Once",
    "RestartName",
    "Restarts",
    "Run",
]
