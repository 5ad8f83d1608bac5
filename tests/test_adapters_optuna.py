"""`SublevelSampler` in studies of Optuna: every distribution, every kind of trial, in parallel and continued."""

from __future__ import annotations

import copy
import importlib
import logging
import math
import pickle
import sys
import threading

import numpy as np
import pytest

import sublevel as sl

pytest.importorskip("optuna")

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from sublevel.adapters.optuna import SublevelSampler, Variable

optuna.logging.set_verbosity(optuna.logging.ERROR)
DISTRIBUTIONS = {
    "real": FloatDistribution(-5.0, 5.0),
    "log": FloatDistribution(1e-6, 1.0, log=True),
    "stepped": FloatDistribution(0.0, 1.0, step=0.1),
    "whole": IntDistribution(1, 12),
    "whole stepped": IntDistribution(2, 20, step=3),
    "whole log": IntDistribution(1, 1000, log=True),
    "choice": CategoricalDistribution([None, True, 1.5, 2, "text"]),
    "one": IntDistribution(3, 3),
}
BEST = {"real": 1.0, "log": 1e-3, "stepped": 0.3, "whole": 8, "whole stepped": 11, "whole log": 30, "choice": 1.5}


def mixed(trial):
    """A minimum of 0 at BEST."""
    p = {name: suggest(trial, name, distribution) for name, distribution in DISTRIBUTIONS.items()}
    numbers = (p["real"] - 1) ** 2 + (p["stepped"] - 0.3) ** 2 + 0.1 * (p["whole"] - 8) ** 2
    logs = math.log10(p["log"] / 1e-3) ** 2 + math.log10(p["whole log"] / 30) ** 2
    return numbers + logs + 0.02 * (p["whole stepped"] - 11) ** 2 + (p["choice"] != 1.5)


def suggest(trial, name, distribution):
    if isinstance(distribution, CategoricalDistribution):
        return trial.suggest_categorical(name, distribution.choices)
    low, high, step, log = distribution.low, distribution.high, distribution.step, distribution.log
    kind = trial.suggest_int if isinstance(distribution, IntDistribution) else trial.suggest_float
    return kind(name, low, high, step=step, log=log)


def bowl(trial):
    return (trial.suggest_float("x", -5, 5) - 2) ** 2 + (trial.suggest_float("y", -5, 5) + 1) ** 2


def study_of(objective, n_trials, sampler=None, **given):
    study = optuna.create_study(sampler=sampler or SublevelSampler(seed=1), **given)
    study.optimize(objective, n_trials=n_trials)
    return study


def told(study):
    """Numbers of the trials that are part of a generation, in the order in which they were told."""
    return study.sampler._search.told


def params(study):
    return [trial.params for trial in study.trials]


def test_all_distributions_are_searched_and_kept():
    study = study_of(mixed, 300)
    for trial in study.trials:
        assert all(
            DISTRIBUTIONS[name]._contains(DISTRIBUTIONS[name].to_internal_repr(value))
            for name, value in trial.params.items()
        )
    assert study.best_value < 0.05
    best = study.best_params
    assert (best["whole"], best["choice"], best["one"]) == (8, 1.5, 3)
    assert type(best["whole"]) is type(best["whole log"]) is int


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_values_survive_the_way_to_coordinates_and_back(name):
    distribution = DISTRIBUTIONS[name]
    variable = Variable(name, distribution)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    for _ in range(50):
        trial = study.ask({name: distribution})
        value = variable.value(variable.coordinate(trial.params[name]))
        assert type(value) is type(trial.params[name])
        assert (
            value == pytest.approx(trial.params[name], rel=1e-12)
            if type(value) is float
            else value == trial.params[name]
        )


def test_integers_beyond_the_precision_of_floats_stay_in_their_range():
    top = 2**60
    study = study_of(lambda trial: abs(trial.suggest_int("n", 0, top) - 2**58) / top, 60)
    assert all(0 <= trial.params["n"] <= top for trial in study.trials)
    assert study.best_value < 0.01


def test_choices_alone_are_searched():
    def objective(trial):
        return sum(trial.suggest_categorical(f"c{i}", [3, 2, 1, 0]) for i in range(4))

    assert study_of(objective, 150).best_value == 0


def test_first_trial_is_the_centre_or_the_start():
    centre = study_of(mixed, 1).trials[0].params
    assert (centre["real"], centre["whole"], centre["choice"]) == (0.0, 7, None)
    assert centre["log"] == pytest.approx(1e-3)
    start = study_of(mixed, 1, SublevelSampler(start=BEST)).trials[0].params
    assert start == {**BEST, "one": 3, "log": pytest.approx(1e-3), "stepped": pytest.approx(0.3)}


def test_maximizing_is_minimizing_the_negative():
    down = study_of(bowl, 60)
    up = study_of(lambda trial: -bowl(trial), 60, direction="maximize")
    assert params(down) == params(up)
    assert up.best_value == -down.best_value


def test_same_seed_gives_the_same_trials():
    one, other, third = (params(study_of(mixed, 40, SublevelSampler(seed=seed))) for seed in (1, 1, 2))
    assert one == other != third


def test_seed_that_is_not_given_is_stored_with_the_study():
    one, other = (study_of(bowl, 5, SublevelSampler()) for _ in range(2))
    assert params(one)[1:] != params(other)[1:]


def journal(folder):
    return JournalStorage(JournalFileBackend(str(folder / "study.log")))


def database(folder):
    return f"sqlite:///{folder}/study.db"


@pytest.mark.parametrize(("storage", "parts"), [(journal, [1, 39]), (journal, [13, 20, 7]), (database, [11, 7])])
def test_study_in_a_storage_is_continued_as_if_it_had_not_stopped(tmp_path, storage, parts):
    for part in parts:
        given = {"study_name": "s", "storage": storage(tmp_path), "load_if_exists": True}
        study = study_of(mixed, part, SublevelSampler(seed=1), **given)
    assert params(study) == params(study_of(mixed, sum(parts)))


def test_parallel_trials_are_all_told_once_and_in_the_order_of_their_ends():
    """Trials of four threads end out of order."""
    barrier = threading.Semaphore(0)
    ends = []

    def objective(trial):
        value = bowl(trial)
        if trial.number % 4 == 1:
            barrier.acquire(timeout=0.02)  # a slow one
        ends.append(trial.number)
        return value

    study = optuna.create_study(sampler=SublevelSampler(seed=1, popsize=6))
    study.optimize(objective, n_trials=80, n_jobs=4)
    study.sampler.sample_relative(study, study.ask()._get_latest_trial(), dict(study.trials[0].distributions))
    ended = sorted(study.get_trials(states=[TrialState.COMPLETE]), key=lambda trial: trial.datetime_complete)
    assert len(ended) == 80
    assert told(study) == [trial.number for trial in ended][: 80 // 6 * 6]
    assert ends != sorted(ends)
    assert study.best_value < 0.1


def test_more_trials_than_a_generation_has_may_run_at_the_same_time():
    study = optuna.create_study(sampler=SublevelSampler(seed=1, popsize=4))
    study.optimize(bowl, n_trials=1)
    for _ in range(12):
        running = [study.ask() for _ in range(10)]
        for trial in reversed(running):
            study.tell(trial, bowl(trial))
    study.ask().suggest_float("x", -5, 5)
    assert sorted(told(study)) == sorted(set(told(study)))
    assert len(told(study)) == 121 // 4 * 4
    assert len({str(trial.params) for trial in study.trials[:-1]}) == 121
    assert study.best_value < 0.1


def test_enqueued_trials_and_those_of_other_samplers_are_part_of_generations():
    study = study_of(bowl, 15, optuna.samplers.RandomSampler(seed=1))
    study.sampler = SublevelSampler(seed=1, popsize=5)
    study.enqueue_trial({"x": 2.0, "y": -1.0})
    study.add_trial(
        optuna.create_trial(params={"x": 4.9, "y": 4.9}, distributions=study.trials[0].distributions, value=40.0)
    )
    study.optimize(bowl, n_trials=40)
    assert study.best_value == 0.0
    assert sorted(told(study)) == list(range(55))
    mean = study.sampler._search.optimizer.mean
    np.testing.assert_allclose(mean, [2.0, -1.0], atol=0.5)


def test_failed_and_pruned_trials_are_ranked_last():
    def objective(trial):
        value = bowl(trial)
        if trial.params["x"] < 0:
            raise RuntimeError("no value")
        if trial.params["y"] > 1:
            trial.report(-1000.0, 0)  # better than any completed trial
            raise optuna.TrialPruned
        return math.nan if trial.params["x"] > 4 else value

    study = optuna.create_study(sampler=SublevelSampler(seed=1))
    study.optimize(objective, n_trials=120, catch=(RuntimeError,))
    states = [trial.state for trial in study.trials]
    assert set(states) == {TrialState.COMPLETE, TrialState.FAIL, TrialState.PRUNED}
    assert len(told(study)) >= 120 - study.sampler._search.optimizer.popsize
    assert study.best_value < 0.01
    assert states[60:].count(TrialState.COMPLETE) > 50


def test_pruned_trials_without_a_report_and_failures_before_any_parameter_do_no_harm():
    def objective(trial):
        if trial.number % 5 == 0:
            raise RuntimeError("early")
        value = bowl(trial)
        if trial.number % 5 == 1:
            raise optuna.TrialPruned
        return value

    study = optuna.create_study(sampler=SublevelSampler(seed=1))
    study.optimize(objective, n_trials=100, catch=(RuntimeError,))
    assert study.best_value < 0.1


def is_new():
    return hasattr(optuna.trial.Trial, "set_constraint")


def test_constraints_function_keeps_the_search_feasible():
    """The best point with x + y ≤ 0 of a bowl at (2, −1) is (1.5, −1.5)."""
    sampler = SublevelSampler(seed=1, constraints_func=lambda trial: (trial.params["x"] + trial.params["y"],))
    study = study_of(bowl, 200, sampler)
    feasible = [trial for trial in study.trials if trial.params["x"] + trial.params["y"] <= 0]
    assert min(trial.value for trial in feasible) == pytest.approx(0.5, abs=0.05)
    np.testing.assert_allclose(study.sampler._search.optimizer.mean, [1.5, -1.5], atol=0.1)
    assert all(trial.system_attrs["constraints"] == [sum(trial.params.values())] for trial in study.trials)


@pytest.mark.skipif(not is_new(), reason="Optuna before 5 has constraints by function only")
def test_constraints_of_the_objective_are_used():
    def objective(trial):
        value = bowl(trial)
        trial.set_constraint("sum", trial.params["x"] + trial.params["y"])
        return value

    study = study_of(objective, 200)
    assert study.best_value == pytest.approx(0.5, abs=0.05)
    np.testing.assert_allclose(study.sampler._search.optimizer.mean, [1.5, -1.5], atol=0.1)


def test_conditional_parameters_are_drawn_independently_which_is_logged_once(caplog):
    def objective(trial):
        x = trial.suggest_float("x", -5, 5)
        if trial.suggest_categorical("branch", ["a", "b"]) == "a":
            return x**2 + trial.suggest_float("only a", 0, 1)
        return x**2 + 2 + trial.suggest_int("only b", 0, 5)

    with caplog.at_level(logging.INFO, logger="sublevel"):
        study = study_of(objective, 100)
    logged = [record.getMessage() for record in caplog.records if "independently" in record.getMessage()]
    assert len(logged) == len(set(logged)) == 2
    assert "parameter 'only b' is not suggested in every trial" in "".join(logged)
    assert study.best_params["branch"] == "a"
    assert study.best_value < 0.3
    assert len(told(study)) > 90


def test_search_begins_anew_when_it_has_converged():
    study = study_of(lambda trial: abs(trial.suggest_int("n", 0, 3) - 2), 300, SublevelSampler(seed=1, popsize=4))
    assert study.sampler._search.optimizer.restarts > 0


def test_samplers_can_be_copied_and_pickled():
    study = study_of(bowl, 20)
    for twin in (copy.deepcopy(study.sampler), pickle.loads(pickle.dumps(study.sampler))):
        other = study_of(bowl, 20, twin)
        assert params(other) == params(study)


def test_one_sampler_serves_several_studies():
    sampler = SublevelSampler(seed=1)
    one, other = study_of(bowl, 20, sampler), study_of(bowl, 20, sampler)
    assert params(one) == params(other)


def test_wrong_uses_are_refused():
    with pytest.raises(ValueError, match="`sigma0` must be in"):
        SublevelSampler(sigma0=3.0)
    with pytest.raises(ValueError, match="draw its points independently"):
        SublevelSampler(method=sl.cma(step_size="tpa"))
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=SublevelSampler())
    with pytest.raises(ValueError, match="a single objective, got a study with 2"):
        study.ask().suggest_float("x", 0, 1)


def test_missing_package_names_the_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "sublevel.adapters.optuna")
    monkeypatch.setitem(sys.modules, "optuna.distributions", None)
    with pytest.raises(ModuleNotFoundError, match=r"which is not installed: pip install 'sublevel\[optuna\]'"):
        importlib.import_module("sublevel.adapters.optuna")
