"""Problems of COCO's suites, and how many targets a search reaches on them: common to the benchmarks on its suites.

A row of a table has the algorithm, the function, d, the instance, evaluations, seconds, and the evaluations to each
target.
"""

from __future__ import annotations

import csv
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from sublevel.adapters.coco import coco_problem

TARGETS = 10.0 ** np.linspace(2, -8, 51)


class Finished(Exception):
    """The last target is reached or the budget is spent."""


class Counted:
    """An objective that notes when each target is reached."""

    def __init__(self, problem: Callable[[np.ndarray], float], optimum: float, budget: int) -> None:
        self.problem, self.optimum, self.budget = problem, optimum, budget
        self.evaluations = self.reached = 0
        self.hits = np.full(TARGETS.size, np.inf)

    def __call__(self, x: np.ndarray) -> float:
        if self.evaluations >= self.budget or self.reached == TARGETS.size:
            raise Finished
        value = self.problem(x)
        self.evaluations += 1
        while self.reached < TARGETS.size and value - self.optimum <= TARGETS[self.reached]:
            self.hits[self.reached] = self.evaluations
            self.reached += 1
        return value


def optimal_value(suite: str, function: int, d: int, instance: int) -> float:
    """f_opt, which COCO tells through a file only."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            problem = coco_problem(suite, function, d, instance)
            problem._best_parameter("print")
            return float(problem(np.loadtxt("._bbob_problem_best_parameter.txt")))
        finally:
            os.chdir(here)


def run_tasks(
    solve: Callable[..., list[object]],
    tasks: Iterable[tuple[object, ...]],
    jobs: int,
    out: Path,
    known: Iterable[list[object]] = (),
) -> list[list[object]]:
    """Known rows and those of all tasks, in processes, written to `runs.csv` as they are made."""
    rows = list(known)
    out.mkdir(parents=True, exist_ok=True)
    with (
        ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool,
        open(out / "runs.csv", "w", newline="") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(["algorithm", "function", "d", "instance", "evaluations", "seconds", *TARGETS])
        writer.writerows(rows)
        pending = [pool.submit(solve, *task) for task in tasks]
        for done, future in enumerate(as_completed(pending), start=1):
            rows.append(future.result())
            writer.writerow(rows[-1])
            file.flush()
            print(f"\r{done}/{len(pending)}", end="", flush=True)
    print()
    return rows


def read_rows(path: Path) -> list[list[object]]:
    """The rows of a table that `run_tasks` has written."""
    with open(path, newline="") as file:
        lines = list(csv.reader(file))[1:]
    return [[line[0], *map(int, line[1:5]), *map(float, line[5:])] for line in lines]


def reusable(
    rows: list[list[object]], tasks: Iterable[tuple[object, ...]], budget: int, trials: int
) -> list[list[object]]:
    """The rows that tasks would make with `budget`·d evaluations: all the trials of an algorithm on a problem or none.

    A search that did not reach the last target within its evaluations is known no further. Targets that were reached
    later than within the budget count as missed.
    """
    of_problem: dict[tuple[object, ...], list[list[object]]] = {task[:4]: [] for task in tasks}
    for row in rows:
        is_whole = np.isfinite(row[-1]) or row[4] >= budget * row[2]
        if is_whole and len(found := of_problem.get(tuple(row[:4]), [None] * trials)) < trials:
            limit = budget * row[2]
            hits = [hit if hit <= limit else np.inf for hit in row[6:]]
            found.append([*row[:4], min(row[4], limit), row[5], *hits])
    return [row for found in of_problem.values() if len(found) == trials for row in found]


def table(rows: list[list[object]], names: list[str], dims: list[int]) -> Iterator[str]:
    """Share of targets and evaluation ratios by dimension, and over all of them."""
    ours = names[0]
    yield (
        "  d   " + "".join(f"{name:>18}" for name in names) + "".join(f"{'ratio to ' + name:>24}" for name in names[1:])
    )
    for label, some in [*((f"{d:4}", [d]) for d in dims), (" all", dims)]:
        shares = "".join(f"{100 * np.mean([share(rows, name, d) for d in some]):17.1f}%" for name in names)
        logs = [[ratio for d in some for ratio in log_ratios(rows, ours, name, d)] for name in names[1:]]
        ratios = "".join(f"{f'{np.exp(np.mean(log)):.3f} ({len(log)} functions)' if log else '-':>24}" for log in logs)
        yield f"{label}  {shares}{ratios}"


def share(rows: list[list[object]], name: str, d: int, evaluations: float = sys.float_info.max) -> float:
    """Share of all targets that were reached in dimension d, within so many evaluations."""
    return float(np.mean(np.array([row[6:] for row in rows if row[0] == name and row[2] == d], float) <= evaluations))


def log_ratios(rows: list[list[object]], ours: str, theirs: str, d: int) -> Iterator[float]:
    """Logarithm of the ratio of median evaluations to the last target, for each function that both solved in more than
    half of the runs.
    """
    for function in range(1, 25):
        medians = [
            np.median([float(row[-1]) for row in rows if row[:3] == [name, function, d]]) for name in (ours, theirs)
        ]
        if np.all(np.isfinite(medians)):
            yield float(np.log(medians[0] / medians[1]))


def budget_table(
    rows: list[list[object]], names: list[str], dims: list[int], budgets: list[int], groups: dict[str, range]
) -> Iterator[str]:
    """Share of targets within each budget·d evaluations, by dimension and group of functions, and differences of the
    first algorithm to the others with their standard error.
    """
    width = max(map(len, (*names, *(f"- {name}" for name in names[1:])))) + 2
    for d in dims:
        shares = {name: problem_shares(rows, name, d, budgets) for name in names}
        for label, functions in groups.items():
            yield f"\nd = {d}, {label}; evaluations / d" + "".join(f"{budget:>14}" for budget in budgets)
            of_group = {name: [shares[name][function] for function in functions] for name in names}
            for name, parts in of_group.items():
                means = np.mean([part.mean(axis=0) for part in parts], axis=0)
                yield f"  {name:{width}}" + "".join(f"{100 * mean:13.1f}%" for mean in means)
            for name in names[1:]:
                pairs = [ours - theirs for ours, theirs in zip(of_group[names[0]], of_group[name], strict=True)]
                means, errors = stratified_mean(pairs)
                cells = [f"{100 * mean:+.1f} ± {100 * error:.1f}" for mean, error in zip(means, errors, strict=True)]
                yield f"  {f'- {name}':{width}}" + "".join(f"{cell:>14}" for cell in cells)


def problem_shares(rows: list[list[object]], name: str, d: int, budgets: list[int]) -> dict[int, np.ndarray]:
    """For each function, the shares of targets (instances, budgets) that were reached, means over the trials."""
    hits: dict[tuple[int, int], list[list[object]]] = {}
    for row in rows:
        if row[0] == name and row[2] == d:
            hits.setdefault((row[1], row[3]), []).append(row[6:])
    shares: dict[int, list[list[float]]] = {}
    for (function, _), trials in sorted(hits.items()):
        within = [np.mean(np.array(trials, float) <= budget * d) for budget in budgets]
        shares.setdefault(function, []).append(within)
    return {function: np.array(of_instances) for function, of_instances in shares.items()}


def stratified_mean(samples: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean of the means of samples (count, ...), and its standard error, NaN for samples of a single value."""
    variances = [
        sample.var(axis=0, ddof=1) / len(sample) if len(sample) > 1 else np.full(sample.shape[1:], np.nan)
        for sample in samples
    ]
    return np.mean([sample.mean(axis=0) for sample in samples], axis=0), np.sqrt(np.sum(variances, axis=0)) / len(
        samples
    )


def draw(rows: list[list[object]], names: list[str], dims: list[int], target: Path) -> None:
    """Share of targets reached against evaluations/d, one panel per dimension."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(
        1, len(dims), figsize=(3.2 * len(dims), 3.2), sharey=True, squeeze=False, constrained_layout=True
    )
    for panel, d in zip(panels[0], dims, strict=True):
        for name in names:
            hits = np.array([row[6:] for row in rows if row[0] == name and row[2] == d], dtype=float).ravel() / d
            grid = np.geomspace(1, max(np.max(hits, where=np.isfinite(hits), initial=2), 2), 200)
            panel.semilogx(grid, [np.mean(hits <= t) for t in grid], label=name)
        panel.set(title=f"d = {d}", xlabel="evaluations / d", ylim=(0, 1))
        panel.spines[["top", "right"]].set_visible(False)
    panels[0, 0].set_ylabel("share of targets")
    panels[0, -1].legend(frameon=False)
    figure.savefig(target, dpi=130)
