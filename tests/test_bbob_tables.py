"""The tables of benchmarks on COCO's suites: differences, standard errors, and which earlier runs can be reused."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def coco_targets(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("coco_targets")


def row(coco_targets, name, function, instance, evaluations, first_hits, d=2):
    hits = [*first_hits, *[np.inf] * (coco_targets.TARGETS.size - len(first_hits))]
    return [name, function, d, instance, evaluations, 0.5, *hits]


def test_a_standard_error_is_that_of_the_instances_not_of_the_functions(coco_targets):
    rng = np.random.default_rng(1)
    levels = np.array([0.0, 5.0, 100.0])
    samples = [[level + rng.standard_normal((4, 1)) for level in levels] for _ in range(2000)]
    means, errors = np.array([coco_targets.stratified_mean(sample) for sample in samples])[..., 0].T
    assert np.mean(means) == pytest.approx(35.0, abs=0.05)
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(np.std(means), rel=0.05)
    assert np.isnan(coco_targets.stratified_mean([np.ones((1, 1))])[1][0])


def test_the_difference_of_two_algorithms_is_taken_on_the_same_problems(coco_targets):
    rows = [row(coco_targets, "ours", 1, i, 200, [2, 2 * i]) for i in (1, 2, 3)]
    rows += [row(coco_targets, "theirs", 1, i, 200, [2 * i]) for i in (1, 2, 3)]
    lines = list(coco_targets.budget_table(rows, ["ours", "theirs"], [2], [2, 100], {"all": range(1, 2)}))
    percent = 100 / coco_targets.TARGETS.size
    assert lines[1].split() == ["ours", f"{5 / 3 * percent:.1f}%", f"{2 * percent:.1f}%"]
    assert lines[2].split() == ["theirs", f"{2 / 3 * percent:.1f}%", f"{percent:.1f}%"]
    assert lines[3].split("theirs")[1].split() == f"+{percent:.1f} ± 0.0 +{percent:.1f} ± 0.0".split()


def test_runs_are_reused_if_they_went_on_to_the_budget(coco_targets, tmp_path):
    whole, short = row(coco_targets, "a", 1, 1, 200, [10, 150]), row(coco_targets, "a", 1, 2, 100, [10])
    solved = row(coco_targets, "a", 1, 3, 90, [90] * coco_targets.TARGETS.size)
    coco_targets.run_tasks(None, [], 1, tmp_path, [whole, short, solved])
    rows = coco_targets.read_rows(tmp_path / "runs.csv")
    tasks = [("a", 1, 2, instance, trial) for instance in (1, 2, 3, 4) for trial in (0,)]
    assert [found[3] for found in coco_targets.reusable(rows, tasks, 100, 1)] == [1, 3]
    assert [found[3] for found in coco_targets.reusable(rows, tasks, 50, 1)] == [1, 2, 3]
    first = coco_targets.reusable(rows, tasks, 60, 1)[0]
    assert first[4] == 120
    assert np.isfinite(first[6:]).sum() == 1
    assert coco_targets.reusable(rows, tasks, 50, 2) == []
    assert len(coco_targets.reusable(rows + rows, tasks, 50, 2)) == 6
