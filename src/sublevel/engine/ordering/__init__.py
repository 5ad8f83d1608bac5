"""Rules that rank the points of a sample."""

from sublevel.engine.ordering.by_value import BY_VALUE, ByValue, Ordering
from sublevel.engine.ordering.ranks import Ranking, ranking

__all__ = ["BY_VALUE", "ByValue", "Ordering", "Ranking", "ranking"]
