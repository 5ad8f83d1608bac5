"""The final model of a run, for its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.summaries import Summary, short_array
from sublevel.surrogate.control import Surrogate, minimum_nearby

if TYPE_CHECKING:
    from sublevel.run.search_space import SearchSpace


@dataclass(frozen=True, slots=True)
class SurrogateModel:
    """The quadratic model of the order of values at the end of a run.

    Attributes
    ----------
    x : ndarray, shape (d,)
        Minimiser of the model near the mean of the search distribution, as a point of the user's space. It need not
        have been evaluated.
    hessian : ndarray, shape (k, k)
        Hessian of the model in the k free variables, scaled to a trace of k: the order of values determines it up to a
        factor. Where a variable is log-scaled it refers to ln x.
    agreement : float
        Kendall's τ of the values of the last evaluations and the values of the model: 1 is the same order.
    evaluations : int
        Evaluations that the model is fitted to, without failed ones; 0 if there is no model.
    saved : int
        Points of the last run that were not evaluated, because the model was accepted.
    """

    x: Array
    hessian: Array
    agreement: float
    evaluations: int
    saved: int

    def __repr__(self) -> str:
        """The model in a few lines."""
        facts = {
            "x": short_array(self.x),
            "agreement": f"{self.agreement:.3f}",
            "evaluations": f"{self.evaluations}",
            "saved": f"{self.saved}",
        }
        return Summary("SurrogateModel", facts).text()


def describe_surrogate(surrogate: Surrogate, space: SearchSpace | None) -> SurrogateModel:
    """The model in use as the user's result."""
    theta, model, d = surrogate.theta, surrogate.model, surrogate.theta.dimension
    fold = None if space is None else space.fold
    point = theta.push(minimum_nearby(surrogate, fold)[None])
    inverse = theta.at_mean(np.zeros(d)).whiten(np.eye(d)).T  # A⁻¹
    if fold is not None:  # the mean may lie beyond a bound, where the space is a mirror image
        inverse = inverse * fold.turns(theta.mean, fold(theta.mean))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        hessian = inverse.T @ model.H @ inverse
        hessian = hessian * (d / np.trace(hessian))
    return SurrogateModel(
        x=(point if space is None else space.points(point))[0].copy(),
        hessian=hessian,
        agreement=float(surrogate.agreement),
        evaluations=int(np.count_nonzero(surrogate.archive.usable)) if surrogate.is_fitted else 0,
        saved=int(surrogate.saved),
    )
