"""Rules that turn the ranks of a sample into weights."""

from sublevel.engine.weights.active import Active
from sublevel.engine.weights.leave_one_out import LeaveOneOut
from sublevel.engine.weights.protocol import Weights
from sublevel.engine.weights.quantile import LogLinear, Quantile, Truncation, Utilities, effective_size
from sublevel.engine.weights.volume import Volume

__all__ = [
    "Active",
    "LeaveOneOut",
    "LogLinear",
    "Quantile",
    "Truncation",
    "Utilities",
    "Volume",
    "Weights",
    "effective_size",
]
