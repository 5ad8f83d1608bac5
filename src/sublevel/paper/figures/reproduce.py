"""Reproduce the figures of the paper: compute, draw, check the statements, and write a report."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from sublevel.paper import cache
from sublevel.paper.figures.compute import chunks
from sublevel.paper.figures.config import CODE, EXPERIMENT, FIGURES, Setting, all_settings, figure_settings
from sublevel.paper.figures.page import Facts, page
from sublevel.paper.figures.results import Result, Results, join_parts, summary_row
from sublevel.paper.figures.statements import Statement, statements
from sublevel.paper.progress_bar import ProgressBar
from sublevel.paper.runner import DataFile, compute_files
from sublevel.paper.streams import SEED


@dataclass(frozen=True, slots=True)
class Plan:
    """What to reproduce, and where to save it."""

    out: Path
    figures: tuple[int, ...] = FIGURES
    trials: int | None = EXPERIMENT.trials  # of each setting; None: the few of a quick run
    seed: int = SEED
    d: int = EXPERIMENT.dimension

    def trials_of(self, setting: Setting) -> int:
        """Number of trials of a setting."""
        return setting.quick_trials if self.trials is None else self.trials

    @property
    def data(self) -> Path:
        """The directory with one file per setting."""
        return self.out / "data"

    def data_file(self, setting: Setting) -> DataFile:
        """The data file of a setting, with a task for each chunk of trials."""
        trials = self.trials_of(setting)
        path, works = self.data / f"{setting.key}.npz", chunks(setting, self.seed, trials)
        return DataFile.plan(path, setting.config(self.seed, trials), CODE, works, self.data / "parts", join_parts)


def reproduce(plan: Plan, jobs: int, progress: ProgressBar) -> tuple[Path, list[Statement], Results]:
    """Compute missing data, draw, check and report; returns the path of the report, the statements and the results."""
    from sublevel.paper.figures.draw import draw_figures  # fails before the computation if Matplotlib is missing

    started = time.monotonic()
    cache.prepare(plan.out)
    settings = all_settings(plan.figures, plan.d)
    arrays, reused = compute_files([plan.data_file(setting) for setting in settings], jobs, progress)
    results = {setting: Result(setting, part) for setting, part in zip(settings, arrays, strict=True)}
    rows = statements(results)
    summary = [summary_row(figure, results[s]) for figure in plan.figures for s in figure_settings(figure, plan.d)]
    cache.save_text(plan.out / "summary.json", json.dumps(summary, indent=1) + "\n")
    pictures = draw_figures(plan.figures, results, plan.d, plan.out)
    facts = Facts(plan.seed, jobs, time.monotonic() - started, reused)
    cache.save_text(plan.out / "report.html", page(rows, results, pictures, facts))
    return plan.out / "report.html", rows, results
