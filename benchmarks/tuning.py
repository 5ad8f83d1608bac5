"""Hyperparameters of scikit-learn's models on the data sets that it ships with: ours, Optuna's TPE and random search.

    python benchmarks/tuning.py                                             (about half an hour)
    python benchmarks/tuning.py --tasks "SVM, digits" --seeds 0:3
    python benchmarks/tuning.py --searches "optuna TPE,random" --cache tuning.json

Each task has an integer, a log-scaled and a categorical parameter at least. The score is the mean accuracy in 3-fold
cross-validation on fixed folds, 0 where a model cannot be fitted; models have a fixed random state, so that equal
parameters have equal scores. Printed: the mean over seeds of the best score after a third of the evaluations and after
all, with its standard error.

With `--cache`, scores of the others are read from that file if they are in it, and written to it. Ours are always made.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

OURS = "sublevel"


@dataclass(frozen=True)
class Real:
    low: float
    high: float
    is_log: bool = False


@dataclass(frozen=True)
class Integer:
    low: int
    high: int
    is_log: bool = False


@dataclass(frozen=True)
class Choice:
    values: tuple[str, ...]


Parameters = dict[str, Real | Integer | Choice]


@dataclass(frozen=True)
class Task:
    """A model of parameters, and the data: the first `size` points after shuffling."""

    data: Callable[..., Any]
    size: int
    parameters: Parameters
    model: Callable[..., Any]

    def objective(self) -> Callable[[dict[str, Any]], float]:
        """The error of parameters, 1 − accuracy."""
        x, y = self.data(return_X_y=True)
        some = np.random.default_rng(0).permutation(y.size)[: self.size]
        folds = StratifiedKFold(3, shuffle=True, random_state=0)

        def error(params: dict[str, Any]) -> float:
            try:
                scores = cross_val_score(self.model(**params), x[some], y[some], cv=folds, error_score=0.0)
            except ValueError as failure:
                if "fits failed" not in str(failure):
                    raise
                return 1.0
            return 1 - float(np.mean(scores))

        return error


def svm(c: float, gamma: float, kernel: str, degree: int, weight: str) -> Any:
    weights = None if weight == "equal" else weight
    return make_pipeline(StandardScaler(), SVC(C=c, gamma=gamma, kernel=kernel, degree=degree, class_weight=weights))


def network(width: int, depth: int, alpha: float, rate: float, activation: str, solver: str) -> Any:
    layers = (width,) * depth
    return make_pipeline(
        StandardScaler(),
        MLPClassifier(
            layers,
            alpha=alpha,
            learning_rate_init=rate,
            activation=activation,
            solver=solver,
            max_iter=40,
            random_state=0,
        ),
    )


def forest(trees: int, depth: int, leaf: int, features: float, criterion: str) -> Any:
    return RandomForestClassifier(
        trees,
        max_depth=depth,
        min_samples_leaf=leaf,
        max_features=features,
        criterion=criterion,
        random_state=0,
    )


def linear(k: int, loss: str, penalty: str, alpha: float, mixture: float) -> Any:
    """A linear model of the k variables with the largest F-values."""
    return make_pipeline(
        StandardScaler(),
        SelectKBest(k=k),
        SGDClassifier(loss=loss, penalty=penalty, alpha=alpha, l1_ratio=mixture, max_iter=200, random_state=0),
    )


TASKS = {
    "SVM, digits": Task(
        load_digits,
        600,
        {
            "c": Real(1e-3, 1e3, is_log=True),
            "gamma": Real(1e-5, 10, is_log=True),
            "kernel": Choice(("rbf", "poly", "sigmoid", "linear")),
            "degree": Integer(2, 6),
            "weight": Choice(("equal", "balanced")),
        },
        svm,
    ),
    "network, digits": Task(
        load_digits,
        300,
        {
            "width": Integer(4, 64, is_log=True),
            "depth": Integer(1, 3),
            "alpha": Real(1e-6, 10, is_log=True),
            "rate": Real(1e-4, 0.3, is_log=True),
            "activation": Choice(("relu", "tanh", "logistic", "identity")),
            "solver": Choice(("adam", "sgd")),
        },
        network,
    ),
    "forest, wine": Task(
        load_wine,
        178,
        {
            "trees": Integer(2, 30, is_log=True),
            "depth": Integer(1, 12),
            "leaf": Integer(1, 20),
            "features": Real(0.05, 1, is_log=True),
            "criterion": Choice(("gini", "entropy", "log_loss")),
        },
        forest,
    ),
    "linear, cancer": Task(
        load_breast_cancer,
        569,
        {
            "k": Integer(1, 30),
            "loss": Choice(("hinge", "log_loss", "modified_huber", "squared_hinge", "perceptron")),
            "penalty": Choice(("l2", "l1", "elasticnet")),
            "alpha": Real(1e-7, 10, is_log=True),
            "mixture": Real(0, 1),
        },
        linear,
    ),
}

Search = Callable[[Callable[[dict[str, Any]], float], Parameters, int, int], None]
"""Of an objective, its parameters, a budget and a seed."""


def search_sublevel(fun: Callable[[dict[str, Any]], float], parameters: Parameters, budget: int, seed: int) -> None:
    import sublevel as sl

    def variable(kind: Real | Integer | Choice) -> Any:
        if isinstance(kind, Choice):
            return sl.Choice(*kind.values)
        of = sl.Real if isinstance(kind, Real) else sl.Integer
        return of(kind.low, kind.high, log=True) if kind.is_log else of(kind.low, kind.high)

    space = sl.Space(**{name: variable(kind) for name, kind in parameters.items()})
    sl.minimize(fun, space, maxfevals=budget, rng=seed, restarts="ipop")


def search_optuna(fun: Callable[[dict[str, Any]], float], parameters: Parameters, budget: int, seed: int) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def suggest(trial: Any, name: str, kind: Real | Integer | Choice) -> Any:
        if isinstance(kind, Choice):
            return trial.suggest_categorical(name, kind.values)
        of = trial.suggest_float if isinstance(kind, Real) else trial.suggest_int
        return of(name, kind.low, kind.high, log=kind.is_log)

    def objective(trial: Any) -> float:
        return fun({name: suggest(trial, name, kind) for name, kind in parameters.items()})

    optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed)).optimize(objective, n_trials=budget)


def search_at_random(fun: Callable[[dict[str, Any]], float], parameters: Parameters, budget: int, seed: int) -> None:
    rng = np.random.default_rng(seed)

    def draw(kind: Real | Integer | Choice) -> Any:
        if isinstance(kind, Choice):
            return kind.values[rng.integers(len(kind.values))]
        widened = np.array([kind.low, kind.high]) + (np.array([-0.5, 0.5]) if isinstance(kind, Integer) else 0)
        value = np.exp(rng.uniform(*np.log(widened))) if kind.is_log else rng.uniform(*widened)
        return round(float(value)) if isinstance(kind, Integer) else float(value)

    for _ in range(budget):
        fun({name: draw(kind) for name, kind in parameters.items()})


SEARCHES: dict[str, Search] = {OURS: search_sublevel, "optuna TPE": search_optuna, "random": search_at_random}


def run(search: str, task: str, seed: int, budget: int) -> list[float]:
    """Accuracies in the order of evaluation, at most `budget` of them."""
    fun, scores = TASKS[task].objective(), list[float]()

    def noted(params: dict[str, Any]) -> float:
        error = fun(params)
        scores.append(1 - error)
        return error

    SEARCHES[search](noted, TASKS[task].parameters, budget, seed)
    return scores[:budget]


class Cache:
    """Scores of the other searches by search, task, seed and budget, kept in a JSON file if there is one."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.scores: dict[str, list[float]] = json.loads(path.read_text()) if path and path.exists() else {}

    def run(self, *given: Any) -> list[float]:
        if given[0] == OURS:
            return run(*given)
        key = "|".join(map(str, given))
        if key not in self.scores:
            self.scores[key] = run(*given)
            if self.path is not None:
                self.path.write_text(json.dumps(self.scores))
        return self.scores[key]


def table(runs: dict[tuple[str, str], list[list[float]]], budget: int) -> Iterator[str]:
    searches, tasks = list(dict.fromkeys(key[0] for key in runs)), dict.fromkeys(key[1] for key in runs)
    yield "mean of the best accuracy, in per cent"
    yield f"{'task':20}{'evaluations':>12}" + "".join(f"{search:>18}" for search in searches)
    for task, evaluations in product(tasks, (budget // 3, budget)):
        best = [[100 * max(scores[:evaluations]) for scores in runs[search, task]] for search in searches]
        cells = [f"{np.mean(some):.2f} ± {np.std(some) / np.sqrt(max(len(some) - 1, 1)):.2f}" for some in best]
        yield f"{task:20}{evaluations:12}" + "".join(f"{text:>18}" for text in cells)
    means = [np.mean([[max(one) for one in runs[search, task]] for task in tasks], axis=0) for search in searches]
    cells = [f"{100 * np.mean(some):.2f} ± {100 * np.std(some) / np.sqrt(max(len(some) - 1, 1)):.2f}" for some in means]
    yield f"{'mean of all':20}{budget:12}" + "".join(f"{text:>18}" for text in cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", default=",".join(SEARCHES))
    parser.add_argument("--tasks", default=";".join(TASKS), help="separated by semicolons")
    parser.add_argument("--seeds", default="0:10", help="first:end")
    parser.add_argument("--budget", type=int, default=90)
    parser.add_argument("--cache", type=Path, help="a JSON file with the scores of the other searches")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # networks that have not converged
    cache, runs = Cache(given.cache), dict[tuple[str, str], list[list[float]]]()
    seeds = range(*map(int, given.seeds.split(":")))
    for seed, task, search in product(seeds, given.tasks.split(";"), given.searches.split(",")):
        runs.setdefault((search, task), []).append(cache.run(search, task, seed, given.budget))
    print("\n".join(table(runs, given.budget)))


if __name__ == "__main__":
    main()
