# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""A search over the parameters of a scikit-learn estimator by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from sublevel.adapters.extras import missing_extra
from sublevel.engine.arrays import Array
from sublevel.run.optimizer import Optimizer
from sublevel.run.parameters import Space
from sublevel.validation import as_count

try:
    from sklearn.model_selection._search import BaseSearchCV
    from sklearn.utils import check_random_state
except ModuleNotFoundError as error:
    raise missing_extra("SublevelSearchCV", "sklearn", error) from error


class SublevelSearchCV(BaseSearchCV):
    """Search over parameters of an estimator, like `RandomizedSearchCV`, with candidates that depend on earlier scores.

    Parameters
    ----------
    estimator : estimator object
        Cloned for each candidate. It must have a `score` method unless `scoring` is given.
    space : Space, or dict of str to Real, Integer, Choice or a constant
        Parameters by name, as for `set_params`, such as "svc__C" for a step of a pipeline.
    n_iter : int, optional
        Number of candidates. The first one is the start of the space.
    popsize : int, optional
        Number of candidates that are evaluated together, in parallel if `n_jobs` allows; 4 + ⌊3 ln d⌋ by default.
    method, restarts
        As for `sublevel.minimize`; restarts by "bipop" by default.
    scoring, n_jobs, refit, cv, verbose, pre_dispatch, error_score, return_train_score
        As for `RandomizedSearchCV`. With several metrics, `refit` must be the name of the one to optimise.
    random_state : int, RandomState or None, optional
        Seed of the search.

    Attributes
    ----------
    best_params_, best_score_, best_index_, best_estimator_, cv_results_, scorer_, n_splits_, refit_time_
        As for `RandomizedSearchCV`.

    Notes
    -----
    Random splits differ between generations unless `cv` has a `random_state`. The search only compares candidates of
    the same generation, but `best_params_` is chosen among all of them.

    Examples
    --------
    >>> import sublevel as sl
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from sublevel.adapters.sklearn import SublevelSearchCV
    >>> space = {"alpha": sl.Real(1e-4, 1e4, log=True), "fit_intercept": sl.Choice(True, False)}
    >>> search = SublevelSearchCV(Ridge(), space, n_iter=30, cv=3, random_state=1)
    >>> search.fit(*load_diabetes(return_X_y=True)).best_params_["fit_intercept"]
    True
    """

    def __init__(
        self,
        estimator: Any,
        space: Space | Mapping[str, Any],
        *,
        n_iter: int = 60,
        popsize: int | None = None,
        method: Any = "cma",
        restarts: Any = "bipop",
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: bool | str | Callable[..., int] = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: int | str = "2*n_jobs",
        random_state: Any = None,
        error_score: float | str = np.nan,
        return_train_score: bool = False,
    ) -> None:
        self.space = space
        self.n_iter = n_iter
        self.popsize = popsize
        self.method = method
        self.restarts = restarts
        self.random_state = random_state
        common: dict[str, Any] = {"scoring": scoring, "n_jobs": n_jobs, "refit": refit, "cv": cv, "verbose": verbose}
        common |= {"pre_dispatch": pre_dispatch, "error_score": error_score, "return_train_score": return_train_score}
        super().__init__(estimator, **common)

    def _run_search(
        self, evaluate_candidates: Callable[[list[dict[str, Any]]], Mapping[str, Any]], *, callback_ctx: Any = None
    ) -> None:
        """Evaluate generations of candidates, the start before the first, until there are `n_iter` of them.

        `callback_ctx`, the progress of scikit-learn's own searches since version 1.9, is not used.
        """
        left = as_count("n_iter", self.n_iter)
        space = self.space if isinstance(self.space, Space) else Space(self.space)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        optimizer = Optimizer(space, popsize=self.popsize, method=self.method, restarts=self.restarts, rng=seed)
        first = optimizer.best_x[None]
        while left > 0:
            asked = optimizer.ask()
            points = np.concatenate([first, asked])[:left]
            values = self._values(evaluate_candidates([space.decode(x) for x in points]), len(points))
            if len(points) == len(first) + len(asked):
                optimizer.note(first, values[: len(first)])
                optimizer.tell(asked, values[len(first) :])
            first, left = first[:0], left - len(points)

    def _values(self, results: Mapping[str, Any], count: int) -> Array:
        """Mean scores of the last candidates, negated (n,)."""
        score = f"mean_test_{self.refit}"
        score = score if score in results else "mean_test_score"
        if score not in results:
            names = short_list(name.removeprefix("mean_test_") for name in results if name.startswith("mean_test_"))
            raise ValueError(
                f"with several metrics, `refit` must be the name of the one to optimise, one of {names}, got "
                f"{self.refit!r}."
            )
        return -np.asarray(results[score][-count:], dtype=np.float64)


def short_list(names: Iterable[str]) -> str:
    """Names in quotation marks."""
    return ", ".join(map(repr, names))
