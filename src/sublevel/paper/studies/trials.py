"""Batches of trials of a method on a problem, run until each has succeeded or failed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array, Streams
from sublevel.engine.families import FullGaussian
from sublevel.engine.method import Method
from sublevel.paper.cache import Arrays
from sublevel.paper.figures.compute import Batch
from sublevel.paper.studies.problems import Problem

COLLAPSED, DIVERGED, PATIENCE = 1e-9, 1e100, 300
"""Range of the largest standard deviation, and iterations without a step, beyond which a trial has failed."""


def run_trials(method: Method, problem: Problem, d: int, n: int, noise: Streams) -> Arrays:
    """Run a batch; for each trial (trials,) its evaluations, its ending, and its final value."""
    count = len(noise.generators)
    theta = FullGaussian.start(np.full((count, d), problem.start), np.full((count, d), problem.spread))
    batch = Batch.start(method, theta, n, noise)
    ending, evaluations, value = np.full(count, "", dtype="<U9"), np.zeros(count), np.full(count, np.nan)
    iteration = 0
    while batch.trials.size:
        iteration += 1
        sample = method.ask(batch.state, batch.noise, n)
        values = problem.values(sample.x)
        seen = values + problem.noise * batch.noise.standard_normal(values.shape) if problem.noise else values
        state, info = method.tell(batch.state, sample, seen)
        batch = replace(batch, state=state, still=np.where(info.outcome, batch.still + 1, 0))
        final, names = judge_trials(batch, problem, values, spent=iteration * n >= problem.budget)
        over = names != ""
        if over.any():
            trials = batch.trials[over]
            ending[trials], evaluations[trials], value[trials] = names[over], iteration * n, final[over]
            batch = batch.select(~over)
    return {"ending": ending, "evaluations": evaluations, "value": value}


def judge_trials(batch: Batch, problem: Problem, values: Array, spent: bool) -> tuple[Array, NDArray[np.str_]]:
    """The final value of each trial (k,), and the name of its ending (k,), empty for trials that continue."""
    if problem.judged_at_the_end:
        final = problem.values(batch.theta.mean)
        return final, np.where(spent, np.where(final <= problem.target, "reached", "missed"), "")
    final = np.min(values, axis=-1)
    width = np.max(batch.theta.deviations, axis=-1)
    names = ["reached", "collapsed", "diverged", "still", "spent"]
    still, late = batch.still >= PATIENCE, np.full(width.shape, spent)
    return final, np.select([final <= problem.target, width < COLLAPSED, width > DIVERGED, still, late], names, "")
