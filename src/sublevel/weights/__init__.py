"""Rules that turn the ranks of a sample into weights."""

from sublevel.weights.active import Active
from sublevel.weights.protocol import Weights
from sublevel.weights.quantile import LogLinear, Quantile, Truncation, Utilities, effective_size
from sublevel.weights.ranking import Ranking, ranking
from sublevel.weights.volume import Volume

__all__ = ["Active", "LogLinear", "Quantile", "Ranking", "Truncation", "Utilities", "Volume", "Weights", "effective_size", "ranking"]
