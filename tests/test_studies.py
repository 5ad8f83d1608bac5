"""The studies: files appear, the same seed gives the same data, and the tools they judge with are right."""

from __future__ import annotations

import argparse
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sublevel.cli.common import CommandError
from sublevel.cli.main import main
from sublevel.cli.study import COMMAND, run_study
from sublevel.engine.families import FullGaussian
from sublevel.engine.sampling import SAMPLINGS
from sublevel.paper import runner
from sublevel.paper.progress_bar import ProgressBar
from sublevel.paper.streams import streams
from sublevel.paper.studies import STUDIES, Request, consistency, run
from sublevel.paper.studies.consistency import Dimension, Errors, Speed, onset, relative_error
from sublevel.paper.studies.dimension import theory_iterations
from sublevel.paper.studies.methods import MATCHES, VARIANTS, matched_rate, method_of
from sublevel.paper.studies.ngd_vs_rank_mu import Comparison, Probe, Race, Result, compare, results, tuned_comparisons
from sublevel.paper.studies.predictions import Runs, Stationary
from sublevel.paper.studies.predictions import method_of as method_of_ngd
from sublevel.paper.studies.problems import PROBLEMS
from sublevel.paper.studies.request import compute_data
from sublevel.paper.studies.restricted import speeds
from sublevel.paper.studies.samplings import PARTS, Estimates, variances
from sublevel.paper.studies.statistics import bootstrap, log_rank, median_time, running_time, wilson
from sublevel.paper.studies.trials import run_trials
from sublevel.paper.studies.tuned_race import TunedRace, rates_to_try


@pytest.fixture
def at_home(monkeypatch):
    """Let tasks run in this process, which saves the start of others; how many were run is kept."""
    done = []

    def run_here(tasks, jobs, progress):
        for task in tasks:
            task.run()
            done.append(task.path.name)
        return False

    monkeypatch.setattr(runner, "run_tasks", run_here)
    return done


def quiet(name):
    return ProgressBar(name, stream=io.StringIO())


def data_of(request):
    with np.load(request.path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


@pytest.mark.parametrize("name", STUDIES)
def test_study_leaves_figure_data_and_text(name, tmp_path, at_home):
    request = Request(name, tmp_path / "out", seed=1, scale="tiny")
    lines = run(request, 1, quiet(name))
    assert {path.name for path in request.out.iterdir()} == {
        f"{name}{ending}" for ending in (".npz", ".png", ".svg", ".txt")
    }
    assert request.path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "out" / f"{name}.txt").read_text() == "\n".join(lines) + "\n"
    config = json.loads(str(data_of(request)["config"]))
    assert (config["study"], config["seed"], config["scale"]) == (name, 1, "tiny")
    assert len(config["pieces"]) == len(at_home)


@pytest.mark.parametrize("name", STUDIES)
def test_study_is_planned_at_every_scale_with_unique_names(name):
    sizes = []
    for scale in ("tiny", "quick", "full"):
        works = STUDIES[name].works(scale, 0)
        assert len({work.key for work in works}) == len(works)
        assert all(work.cost > 0 for work in works)
        sizes.append(sum(work.cost for work in works))
    assert sizes == sorted(sizes)


def test_same_seed_gives_the_same_data_in_processes_and_at_home(tmp_path, monkeypatch):
    def made(out, seed, jobs):
        request = Request("consistency", tmp_path / out, seed=seed, scale="tiny")
        compute_data(request, STUDIES["consistency"].works("tiny", seed), jobs, quiet("consistency"))
        return {key: value for key, value in data_of(request).items() if key != "config"}

    in_processes = made("two", 3, 2)
    monkeypatch.setattr(runner, "run_tasks", lambda tasks, jobs, progress: [task.run() for task in tasks])
    at_home, other = made("home", 3, 1), made("other", 4, 1)
    for key, array in at_home.items():
        assert_array_equal(array, in_processes[key])
    assert any(not np.array_equal(array, other[key]) for key, array in at_home.items())


def test_finished_data_is_used_again(tmp_path, at_home, monkeypatch):
    request, works = Request("consistency", tmp_path, scale="tiny"), consistency.STUDY.works("tiny", 7)
    made = compute_data(request, works, 1, quiet("consistency"))
    monkeypatch.setattr(runner, "run_tasks", None)  # it must not be called
    found = compute_data(request, works, 1, quiet("consistency"))
    assert found.keys() == made.keys()
    work = next(work for work in works if work.key == "slope-d2-cond10")
    assert_array_equal(found[work]["errors"], made[work]["errors"])


def test_unknown_study_is_named_with_the_known_ones(tmp_path, capsys):
    given = argparse.Namespace(name="astrology", out=tmp_path, seed=None, quick=True, jobs=1)
    with pytest.raises(CommandError, match=r"unknown study 'astrology'.*consistency, restricted, dimension, apart"):
        run_study(given)
    with pytest.raises(ValueError, match="no study 'astrology'"):
        _ = Request("astrology", tmp_path).study


def test_command_runs_a_study(tmp_path, at_home, capsys, monkeypatch):
    monkeypatch.setitem(STUDIES, "consistency", TINY)
    parser = argparse.ArgumentParser()
    COMMAND.add_to(parser.add_subparsers())
    given = parser.parse_args(["study", "consistency", "--quick", "--seed", "5", "--out", str(tmp_path), "--jobs", "1"])
    assert given.run(given) == 0
    assert "consistency.png" in capsys.readouterr().out
    assert (tmp_path / "consistency.npz").exists()


TINY = replace(consistency.STUDY, works=lambda scale, seed: consistency.STUDY.works("tiny", seed))


@pytest.mark.parametrize(
    ("error", "status"), [(KeyboardInterrupt(), 130), (OSError("full"), 2), (ModuleNotFoundError(name="matplotlib"), 2)]
)
def test_command_says_what_went_wrong(error, status, tmp_path, monkeypatch):
    def fails(*_):
        raise error

    monkeypatch.setattr("sublevel.paper.studies.run", fails)
    given = argparse.Namespace(name="apart", out=tmp_path, seed=None, quick=True, jobs=1)
    with pytest.raises(
        CommandError, match=r"figures need matplotlib|Choose another directory|the same command continues"
    ) as raised:
        run_study(given)
    assert raised.value.status == status


def test_help_has_the_question_of_every_study(capsys):
    with pytest.raises(SystemExit) as end:
        main(["study", "--help"])
    assert end.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    for name in STUDIES:
        assert any(line.split()[:1] == [name] and line.endswith("?") for line in lines)


def test_error_of_the_estimate_is_the_formula():
    errors = Errors(d=10, condition=1.0, sizes=(20_000,), trials=30, seed=1).compute()["errors"]
    measured = np.sqrt(np.mean(np.square(errors)))
    assert_allclose(measured, relative_error(10, 20_000), rtol=0.08)


def test_exact_algorithm_has_the_predicted_speed(tmp_path, at_home):
    request = Request("restricted", tmp_path, scale="tiny")
    data = compute_data(request, STUDIES["restricted"].works("tiny", 7), 1, quiet("restricted"))
    exact = [speed for speed in speeds(data) if speed.n == 0]
    assert {speed.family for speed in exact} == {"full", "diagonal", "isotropic"}
    for speed in exact:
        assert_allclose(speed.measured, speed.predicted, rtol=1e-6)


def test_exact_algorithm_learns_in_the_paper_s_number_of_iterations():
    assert theory_iterations() == 227


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_contender_solves_the_sphere(variant):
    runs = run_trials(method_of(variant, 10, 100), PROBLEMS["sphere"], 10, 100, streams(1, variant, 0, 2))
    assert (runs["ending"] == "reached").all()
    assert (runs["value"] <= 1e-10).all()


def test_trial_does_not_depend_on_its_batch():
    method, problem = method_of("ngd", 10, 100), PROBLEMS["steps"]
    together = run_trials(method, problem, 10, 100, streams(1, "x", 0, 3))
    alone = run_trials(method, problem, 10, 100, streams(1, "x", 2, 1))
    assert together["evaluations"][2] == alone["evaluations"][0]


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=list(PROBLEMS))
def test_problem_reaches_its_target_somewhere_and_not_at_the_start(problem):
    at = {"slope": 1e6, "sharp ridge": 1e6, "parabolic ridge": 1e3, "two funnels": 2.5, "Rosenbrock": 1.0}
    best = np.zeros(10)
    best[: 1 if "ridge" in problem.name or problem.name == "slope" else 10] = at.get(problem.name, 0.0)
    assert problem.values(best) <= problem.target
    assert problem.values(np.full(10, problem.start)) > problem.target


def test_noisy_trial_is_judged_when_its_budget_is_spent():
    runs = run_trials(method_of("ngd", 10, 100), PROBLEMS["noisy sphere"], 10, 100, streams(2, "noisy", 0, 2))
    assert (runs["evaluations"] == PROBLEMS["noisy sphere"].budget).all()
    assert set(runs["ending"]) <= {"reached", "missed"}


def test_matched_rate_makes_the_speeds_equal():
    rate = matched_rate(lambda rate: VARIANTS["ngd"](MATCHES[10, 100].__class__(rate, 0.5, 1.0)), 10, 100, 0.8, 2, 1)
    assert_allclose(rate, MATCHES[10, 100].ngd, rtol=0.08)


def test_wilson_interval_is_the_textbook_s():
    assert_allclose([wilson(8, 10).low, wilson(8, 10).high], [0.4902, 0.9433], atol=5e-5)
    assert_allclose([wilson(0, 10).low, wilson(10, 10).high], [0, 1], atol=1e-15)


def test_bootstrap_covers_the_mean_of_a_normal_sample(rng):
    sample = rng.standard_normal(400)
    found = bootstrap(np.mean, sample)
    assert_allclose([found.high - found.value, found.value - found.low], 1.96 / 20, rtol=0.2)
    assert str(found).startswith(f"{found.value:.3g} [")


def test_never_is_longer_than_every_time():
    assert median_time(np.array([1.0, 2.0, np.inf, np.inf])) == 2
    assert median_time(np.array([1.0, np.inf, np.inf])) == np.inf
    assert running_time(np.array([3.0, 5.0]), np.array([True, False])) == 8
    assert running_time(np.array([3.0]), np.array([False])) == np.inf


def test_log_rank_tells_different_times_from_equal_ones(rng):
    first, second = rng.exponential(1.0, 60), rng.exponential(4.0, 60)
    assert log_rank(first, second) < 1e-4
    assert log_rank(first, rng.exponential(1.0, 60)) > 0.01
    assert log_rank(np.full(5, np.inf), np.full(5, np.inf)) == 1


def result(times):
    times = np.asarray(times, dtype=float)
    reached = np.isfinite(times)
    return Result(
        np.where(reached, times, 1000.0), reached, np.where(reached, "reached", "spent"), np.zeros(times.size)
    )


@pytest.mark.parametrize(
    ("ngd", "rank_mu", "verdict"),
    [
        (np.arange(40) + 100, np.arange(40) + 300, "NGD"),
        (np.arange(40) + 300, np.arange(40) + 100, "rank-µ"),
        (np.arange(40) + 100, np.arange(40) + 101, "same"),
        (np.arange(40) + 100, 2 * np.arange(40) + 85, "undecided"),
        ([100.0, 900.0], [200.0, 450.0], "undecided"),
        (np.full(40, np.inf), np.arange(40) + 100, "rank-µ"),
        (np.arange(40) + 100, np.full(40, np.inf), "NGD"),
        (np.full(40, np.inf), np.full(40, np.inf), "neither"),
    ],
)
def test_verdict_names_the_faster_only_if_it_is(ngd, rank_mu, verdict):
    found = compare("sphere", (10, 10), result(ngd), result(rank_mu))
    assert isinstance(found, Comparison)
    assert found.verdict == verdict


def test_equivalence_needs_an_interval_within_the_margin():
    one = compare("sphere", (10, 10), result(np.arange(40) + 100), result(np.arange(40) + 117))
    assert one.verdict == "undecided"
    assert replace(one, margin=1.5).verdict == "same"


def test_sweep_tries_the_usual_rates_and_none_that_forgets_everything():
    assert max(rates_to_try("ngd", 10, 100)) == 1
    small, large = rates_to_try("rank-mu", 10, 10), rates_to_try("rank-mu", 10, 100)
    assert_allclose(small[0], 3 / 146)
    assert_allclose(large[0], 49 / 169)
    assert (len(small), len(large)) == (6, 5)
    assert max(large) <= 0.9


def test_tuned_race_takes_the_best_rate_of_its_sweep_and_runs_it_with_other_numbers():
    race = TunedRace("sphere", "ngd", 5, 20, 1.0, tuning=2, trials=3, budget=20_000, seed=1)
    arrays = race.compute()
    assert arrays["rate"] == arrays["rates"][np.argmin(arrays["needed"])]
    assert arrays["ending"].shape == (3,)
    assert (arrays["ending"] == "reached").all()
    again = race.compute()
    assert_array_equal(again["evaluations"], arrays["evaluations"])


def test_tuned_comparisons_name_both_rates():
    def arrays(times, rate):
        ending = np.full(len(times), "reached")
        return {"evaluations": np.array(times), "ending": ending, "value": np.zeros(len(times)), "rate": np.array(rate)}

    ours, theirs = (TunedRace("sphere", method, 10, 100, 1.0, 2, 3, 1000, 1) for method in ("ngd", "rank-mu"))
    (one,) = tuned_comparisons({ours: arrays([100.0, 110.0, 120.0], 0.5), theirs: arrays([300.0, 310.0, 320.0], 0.3)})
    assert (one.c_cov, one.eta_cov, one.spread) == (0.5, 0.3, 1.0)
    assert_allclose(one.comparison.ratio.value, 330 / 930)


def test_law_of_the_error_begins_where_all_larger_samples_obey_it():
    def row(n, excess):
        return Dimension(5, n, 10 * (1 + excess), 0.0, 10.0)

    assert onset([row(100, 0.3), row(1000, 0.04), row(10_000, 0.0)]) == 1000
    assert onset([row(100, 0.0), row(1000, 0.2), row(10_000, 0.0)]) == 10_000
    assert onset([row(100, 0.0), row(1000, 0.2)]) is None
    assert onset([row(100, 0.01)]) == 100


def test_larger_sample_learns_faster_before_c_fits():
    small, large = (Speed(n, 3, seed=1).compute()["times"] for n in (20, 400))
    assert np.mean(large) < 0.5 * np.mean(small)


def test_results_are_found_by_problem_variant_and_setting():
    arrays = {"evaluations": np.ones(2), "ending": np.array(["reached", "spent"]), "value": np.zeros(2)}
    race, probe = Race("sharp ridge", "rank-mu-ties", 10, 100, 2, 1000, seed=1), Probe("ngd", 10, 10, 5, seed=1)
    found = results({race: arrays, probe: {}})
    assert list(found) == [("sharp ridge", "rank-mu-ties", (10, 100))]
    assert found["sharp ridge", "rank-mu-ties", (10, 100)].success.value == 0.5


def test_variances_of_samplings_are_measured_where_they_are_predicted():
    works = [Estimates(name, 5, 10, distance, 4000, 1) for name in SAMPLINGS for distance in (0.5, 4.0)]
    data = {work: work.compute() for work in works}
    found = {part: {(row.work.sampling, row.work.distance): row for row in variances(data, part)} for part in PARTS}
    for rows in found.values():
        for row in rows.values():
            assert abs(row.measured - row.predicted) < 5 * row.error
    of_mean, of_covariance = (found[part] for part in PARTS)
    for read in (lambda row: row.predicted, lambda row: row.measured, lambda row: row.estimated):
        assert read(of_mean["mirrored-orthogonal", 0.5]) < 0.2
        assert read(of_covariance["mirrored", 0.5]) > 1.5
        assert read(of_covariance["mirrored", 4.0]) < 1.0


def test_a_mirrored_run_from_the_optimum_would_keep_its_mean_and_starts_beside_it():
    mirrored, independent = (Stationary(4, 10, 0.3, 2, 1, name) for name in ("mirrored", "independent"))
    assert np.all(Runs(method_of_ngd(0.3, "mirrored"), 4, 10, 2, 1, mirrored.key).theta.mean == 1.0)
    assert np.all(Runs(method_of_ngd(0.3), 4, 10, 2, 1, independent.key).theta.mean == 0.0)
    method = method_of_ngd(0.3, "mirrored")
    state = method.init(FullGaussian.start(np.zeros(4), np.ones(4)), 10)
    sample = method.ask(state, np.random.default_rng(1), 10)
    state, _ = method.tell(state, sample, np.vecdot(sample.x, sample.x))
    assert_array_equal(state.theta.mean, 0.0)
