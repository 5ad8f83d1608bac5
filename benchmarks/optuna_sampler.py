"""`SublevelSampler` against Optuna's TPESampler and CmaEsSampler: the best value after 200 trials on mixed problems.

    python benchmarks/optuna_sampler.py                                   (about 2 minutes on one core)
    python benchmarks/optuna_sampler.py --set tuning --seeds 100-104      (the problems that defaults were chosen on)

Results are kept in `optuna_sampler.csv`, one row for each study, and studies that are in it are not repeated. Printed:
the median best value of each sampler by problem, and its mean rank over problems and seeds, 1 being the best.
CmaEsSampler draws choices at random; with `with_margin=True` it keeps integers variable, as ours does.
"""

from __future__ import annotations

import argparse
import csv
import os
from collections.abc import Callable
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import warnings

import numpy as np
import optuna
from scipy.spatial.distance import cdist
from scipy.stats import rankdata

from sublevel.adapters.optuna import SublevelSampler

Problem = Callable[[optuna.Trial], float]


def ellipsoid(trial: optuna.Trial) -> float:
    """Four real variables of different importance, two integers and a choice."""
    x = np.array([trial.suggest_float(f"x{i}", -5, 5) for i in range(4)]) - np.array([1.7, -2.2, 0.4, 3.1])
    n = np.array([trial.suggest_int(f"n{i}", 0, 20) for i in range(2)]) - np.array([13, 4])
    level = {"a": 2.0, "b": 0.0, "c": 5.0}[trial.suggest_categorical("c", ["a", "b", "c"])]
    return float(10.0 ** np.linspace(0, 2, 4) @ x**2 + n @ n + level)


def network(trial: optuna.Trial) -> float:
    """The shape of a loss over the settings of a network: the best rate depends on the optimizer and the width."""
    rate = np.log10(trial.suggest_float("rate", 1e-6, 1, log=True))
    decay = np.log10(trial.suggest_float("decay", 1e-8, 1e-1, log=True))
    width = np.log2(trial.suggest_int("width", 8, 1024, log=True))
    depth = trial.suggest_int("depth", 1, 8)
    dropout = trial.suggest_float("dropout", 0.0, 0.6, step=0.05)
    optimizer = trial.suggest_categorical("optimizer", ["sgd", "momentum", "adam"])
    activation = trial.suggest_categorical("activation", ["relu", "tanh", "gelu", "sigmoid"])
    best = {"sgd": -1.0, "momentum": -1.8, "adam": -3.1}[optimizer] - 0.15 * (width - 7)
    loss = 0.3 * (rate - best) ** 2 + 0.03 * (decay + 4 - depth / 4) ** 2 + 0.02 * (width - 8) ** 2
    loss += 0.05 * (depth - 4) ** 2 + 2.0 * (dropout - 0.04 * width) ** 2
    loss += {"sgd": 0.3, "momentum": 0.1, "adam": 0.0}[optimizer]
    return float(loss + {"relu": 0.1, "tanh": 0.25, "gelu": 0.0, "sigmoid": 0.6}[activation])


def rosenbrock(trial: optuna.Trial) -> float:
    """A bent valley of three real variables and two integers, in quarters, with a choice that bends it further."""
    x = [trial.suggest_float(f"x{i}", -3, 3) for i in range(3)]
    x += [trial.suggest_int(f"n{i}", -12, 12) / 4 for i in range(2)]
    bend = trial.suggest_categorical("bend", [1.0, 2.0, 0.5])
    x = np.array(x)
    return float(np.sum(10 * (x[1:] - bend * x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2) + abs(bend - 1))


def rastrigin(trial: optuna.Trial) -> float:
    """Many minima in three real variables and two integers, and a choice."""
    x = np.array([trial.suggest_float(f"x{i}", -4, 4) for i in range(3)]) - 0.7
    n = np.array([trial.suggest_int(f"n{i}", -8, 8, step=2) for i in range(2)]) - 2
    phase = {"sin": 0.0, "cos": 3.0, "none": 6.0}[trial.suggest_categorical("phase", ["none", "cos", "sin"])]
    return float(np.sum(x**2 + 4 * (1 - np.cos(2 * np.pi * x))) + 0.5 * n @ n + phase)


def _data(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 3))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.1 * rng.standard_normal(n)


def kernel_ridge(trial: optuna.Trial) -> float:
    """Log of the validation error of a kernel regression: scales of three features, penalty, kernel and degree."""
    scales = np.array([trial.suggest_float(f"scale{i}", 1e-2, 1e1, log=True) for i in range(3)])
    penalty = trial.suggest_float("penalty", 1e-7, 1e1, log=True)
    kernel = trial.suggest_categorical("kernel", ["linear", "polynomial", "laplace", "gauss"])
    degree = trial.suggest_int("degree", 1, 6)
    (X, y), (V, w) = _data(1, 80), _data(2, 80)

    def gram(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        A, B = A * scales, B * scales
        if kernel in ("linear", "polynomial"):
            return (1 + A @ B.T) ** (degree if kernel == "polynomial" else 1)
        return np.exp(-cdist(A, B)) if kernel == "laplace" else np.exp(-cdist(A, B, "sqeuclidean"))

    weights = np.linalg.lstsq(gram(X, X) + penalty * np.eye(len(X)), y, rcond=None)[0]
    return float(np.log(np.mean((gram(V, X) @ weights - w) ** 2)))


def sphere(trial: optuna.Trial) -> float:
    """Five real variables and two choices."""
    x = np.array([trial.suggest_float(f"x{i}", -1, 1) for i in range(5)]) - np.array([0.5, -0.3, 0.1, 0.8, -0.6])
    cost = [trial.suggest_categorical(f"c{i}", [3, 1, 0, 2]) for i in range(2)]
    return float(x @ x + 0.3 * sum(cost))


def ackley(trial: optuna.Trial) -> float:
    """Ackley's function of three real variables and three integers."""
    x = [trial.suggest_float(f"x{i}", -15, 30) - 4.3 for i in range(3)]
    x = np.array(x + [trial.suggest_int(f"n{i}", -15, 30) - 7 for i in range(3)])
    return float(20 + np.e - 20 * np.exp(-0.2 * np.sqrt(np.mean(x**2))) - np.exp(np.mean(np.cos(2 * np.pi * x))))


def trees(trial: optuna.Trial) -> float:
    """The shape of a loss over the settings of boosted trees."""
    rate = np.log10(trial.suggest_float("rate", 1e-3, 1, log=True))
    count = np.log10(trial.suggest_int("count", 10, 3000, log=True))
    depth = trial.suggest_int("depth", 1, 15)
    share = trial.suggest_float("share", 0.2, 1.0, step=0.1)
    penalty = np.log10(trial.suggest_float("penalty", 1e-6, 1e2, log=True))
    policy = {"depth": 0.1, "leaf": 0.0}[trial.suggest_categorical("policy", ["depth", "leaf"])]
    kind = trial.suggest_categorical("kind", ["gbtree", "dart", "linear"])
    loss = (rate + count - 1.2) ** 2 + 0.1 * (rate + 1.6) ** 2 + 0.02 * (depth - 6 - rate) ** 2
    loss += (share - 0.7) ** 2 + 0.02 * (penalty + 1) ** 2 + policy
    return float(loss + {"gbtree": 0.0, "dart": 0.02, "linear": 0.8}[kind])


def cigar(trial: optuna.Trial) -> float:
    """A narrow valley that is turned, of four real variables and an integer, and an unimportant choice."""
    x = np.array([trial.suggest_float(f"x{i}", -5, 5) for i in range(4)] + [trial.suggest_int("n", -20, 20) / 4])
    y = x - np.array([2.0, -1.0, 1.0, 0.5, 1.5])
    along = np.ones(5) / np.sqrt(5)
    trial.suggest_categorical("idle", [True, False])
    return float((along @ y) ** 2 + 30 * np.sum((y - (along @ y) * along) ** 2))


def neighbours(trial: optuna.Trial) -> float:
    """Validation error of regression by nearest neighbours: number, metric, weights and scales of the features."""
    scales = np.array([trial.suggest_float(f"scale{i}", 0, 3) for i in range(3)])
    count = trial.suggest_int("count", 1, 40)
    metric = trial.suggest_categorical("metric", ["chebyshev", "cityblock", "euclidean"])
    weights = trial.suggest_categorical("weights", ["uniform", "distance"])
    (X, y), (V, w) = _data(3, 100), _data(4, 100)
    distance = cdist(V * scales, X * scales, metric)
    nearest = np.argsort(distance, axis=1)[:, :count]
    near = np.take_along_axis(distance, nearest, axis=1)
    share = 1 / (near + 1e-3) if weights == "distance" else np.ones_like(near)
    return float(np.log(np.mean((np.sum(share * y[nearest], axis=1) / np.sum(share, axis=1) - w) ** 2)))


SETS: dict[str, list[Problem]] = {
    "report": [ellipsoid, network, rosenbrock, rastrigin, kernel_ridge],
    "tuning": [sphere, ackley, trees, cigar, neighbours],
}
SAMPLERS: dict[str, Callable[[int], optuna.samplers.BaseSampler]] = {
    "sublevel": lambda seed: SublevelSampler(seed=seed),
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed),
    "tpe multivariate": lambda seed: optuna.samplers.TPESampler(seed=seed, multivariate=True),
    "cmaes": lambda seed: optuna.samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False),
    "cmaes margin": lambda seed: optuna.samplers.CmaEsSampler(
        seed=seed, with_margin=True, warn_independent_sampling=False
    ),
}


def best_value(problem: Problem, sampler: str, seed: int, trials: int) -> float:
    study = optuna.create_study(sampler=SAMPLERS[sampler](seed))
    study.optimize(problem, n_trials=trials)
    return study.best_value


def load(path: Path) -> dict[tuple[str, str, int, int], float]:
    if not path.exists():
        return {}
    with open(path, newline="") as file:
        return {(row[0], row[1], int(row[2]), int(row[3])): float(row[4]) for row in csv.reader(file)}


def study_all(problems: list[Problem], samplers: list[str], seeds: list[int], trials: int, path: Path) -> np.ndarray:
    """Best values (problems, seeds, samplers); those that are not in the file are added to it."""
    known = load(path)
    with open(path, "a", newline="") as file:
        for seed in seeds:
            for problem in problems:
                for sampler in samplers:
                    key = (problem.__name__, sampler, seed, trials)
                    if key not in known:
                        known[key] = best_value(problem, sampler, seed, trials)
                        csv.writer(file).writerow([*key, known[key]])
                        file.flush()
    return np.array([[[known[p.__name__, s, n, trials] for s in samplers] for n in seeds] for p in problems])


def table(values: np.ndarray, problems: list[Problem], samplers: list[str]) -> str:
    ranks = rankdata(values, axis=2)
    lines = ["problem".ljust(14) + "".join(f"{name:>24}" for name in samplers)]
    for problem, of_problem, of_ranks in zip(problems, values, ranks, strict=True):
        cells = [f"{m:.4g} ({r:.2f})" for m, r in zip(np.median(of_problem, 0), of_ranks.mean(0), strict=True)]
        lines.append(problem.__name__.ljust(14) + "".join(f"{cell:>24}" for cell in cells))
    lines.append("mean rank".ljust(14) + "".join(f"{rank:24.2f}" for rank in ranks.mean((0, 1))))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="report", choices=[*SETS])
    parser.add_argument("--samplers", default="sublevel,tpe,cmaes")
    parser.add_argument("--seeds", default="0-9")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("optuna_sampler.csv"))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    first, last = map(int, given.seeds.split("-"))
    problems, samplers = SETS[given.set], given.samplers.split(",")
    print(
        table(study_all(problems, samplers, list(range(first, last + 1)), given.trials, given.out), problems, samplers)
    )


if __name__ == "__main__":
    main()
