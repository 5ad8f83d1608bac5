"""The paper's figures by one command: configuration, computation, pictures, verdicts."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sublevel.paper.figures import schedule, store
from sublevel.paper.figures.compute import compute
from sublevel.paper.figures.config import (
    DIMENSION,
    FIGURES,
    SEED,
    TRIALS,
    Chunk,
    Setting,
    all_settings,
    chunks,
    figure_settings,
    setting_config,
)
from sublevel.paper.figures.page import Facts, page
from sublevel.paper.figures.results import Result, Results, joined, summary_row
from sublevel.paper.figures.statements import Statement, statements
from sublevel.paper.figures.workbar import WorkBar


@dataclass(frozen=True, slots=True)
class Plan:
    """What to reproduce, and where to put it."""

    out: Path
    figures: tuple[int, ...] = FIGURES
    trials: int | None = TRIALS  # of each setting; None: the few of a quick run
    seed: int = SEED
    d: int = DIMENSION

    def trials_of(self, setting: Setting) -> int:
        """How many trials of a setting to run."""
        return setting.quick_trials if self.trials is None else self.trials

    @property
    def data(self) -> Path:
        """One file per setting."""
        return self.out / "data"

    @property
    def parts(self) -> Path:
        """Chunks of settings that are not finished yet."""
        return self.out / "data" / "parts"

    def stamp(self, setting: Setting) -> str:
        """What decides the data of a setting."""
        return store.stamp({**setting_config(setting, self.seed), "trials": self.trials_of(setting)})

    def path(self, setting: Setting) -> Path:
        """Where the data of a setting is."""
        return self.data / f"{setting.key}.npz"

    def tasks(self, setting: Setting) -> list[schedule.Task]:
        """The chunks of a setting."""
        return [self._task(chunk) for chunk in chunks(setting, self.seed, self.trials_of(setting))]

    def _task(self, chunk: Chunk) -> schedule.Task:
        return schedule.Task(self.parts / f"{chunk.key}.npz", store.stamp(chunk.config), chunk.cost, compute, chunk)


def reproduce(plan: Plan, jobs: int, progress: WorkBar) -> tuple[Path, list[Statement]]:
    """Compute what is not there yet, draw, judge, report; the path of the report and the statements."""
    from sublevel.paper.figures.draw import drawn  # needs Matplotlib, which is optional: ask for it before hours are spent

    started = time.monotonic()
    store.prepare(plan.out, plan.data, plan.parts)
    results, reused = computed(plan, jobs, progress)
    rows = statements(results)
    summary = [summary_row(figure, results[setting]) for figure in plan.figures for setting in figure_settings(figure, plan.d)]
    store.save_text(plan.out / "summary.json", json.dumps(summary, indent=1) + "\n")
    pictures = drawn(plan.figures, results, plan.d, plan.out)
    facts = Facts(plan.seed, jobs, time.monotonic() - started, reused)
    store.save_text(plan.out / "report.html", page(rows, results, pictures, facts))
    return plan.out / "report.html", rows


def computed(plan: Plan, jobs: int, progress: WorkBar) -> tuple[Results, bool]:
    """The results of all settings, and whether some of the data was there from an earlier run."""
    settings = all_settings(plan.figures, plan.d)
    found = {setting: store.load(plan.path(setting), plan.stamp(setting)) for setting in settings}
    missing = {setting: plan.tasks(setting) for setting, arrays in found.items() if arrays is None}
    if len(missing) < len(settings):
        progress.say(f"{len(settings) - len(missing)} of {len(settings)} settings are there from an earlier run")
    reused = schedule.run([task for tasks in missing.values() for task in tasks], jobs, progress)
    made = {setting: finished(plan, setting, tasks) for setting, tasks in missing.items()}
    arrays: Mapping[Setting, Any] = {**found, **made}
    return {setting: Result(setting, arrays[setting]) for setting in settings}, reused or len(missing) < len(settings)


def finished(plan: Plan, setting: Setting, tasks: list[schedule.Task]) -> dict[str, Any]:
    """The chunks of a setting as one file."""
    parts = [part for task in tasks if (part := task.load()) is not None]
    if len(parts) < len(tasks):
        raise OSError(f"a file in {plan.parts} vanished while it was needed; is another run writing there?")
    arrays = joined(parts)
    store.save(plan.path(setting), plan.stamp(setting), arrays)
    for task in tasks:
        task.path.unlink(missing_ok=True)
    return arrays
