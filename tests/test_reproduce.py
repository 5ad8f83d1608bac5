"""`sublevel reproduce`: what is run, recorded, kept, judged and drawn."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from helpers.paper_results import made_up, ngd, paper_results, rank_mu
from sublevel.paper import cache, runner
from sublevel.paper.figures import Plan, compute, reproduce
from sublevel.paper.figures.compute import Chunk, chunks
from sublevel.paper.figures.config import CODE, EXPERIMENT, Setting, all_settings, figure_settings, hessian_diagonal
from sublevel.paper.figures.page import Facts, caption, page
from sublevel.paper.figures.results import Result, summary_row
from sublevel.paper.figures.statements import statements, table, verdict_line, window
from sublevel.paper.progress_bar import ProgressBar
from sublevel.paper.theory.curves import predicted_times
from sublevel.paper.theory.intervals import Interval, ratio_of_means
from sublevel.paper.theory.measure import condition_number, expected_objective
from sublevel.run.progress import duration

SMALL = Setting("ngd", 64, 0.5, 10.0, 4)
KEYS = [
    "figure",
    "method",
    "n",
    "c_C",
    "m0",
    "trials",
    "failed",
    "iterations",
    "cond_final",
    "cond_final_std",
    "iterations_to_cond10",
]
"""Of a row of summary.json: others rely on them."""


def silent():
    """Progress that nobody sees."""
    return ProgressBar("test", io.StringIO())


# --- what is run
# ---------------------------------------------------------------------------------------------------------


def test_sample_sizes_are_those_of_the_paper():
    assert sorted({setting.n for setting in figure_settings(1)}) == [5, 20, 90, 400, 1789, 8000]


def test_each_setting_is_computed_once():
    assert [len(figure_settings(figure)) for figure in (1, 2, 3)] == [18, 6, 8]
    assert len(all_settings((1, 2, 3))) == len({setting.key for setting in all_settings((1, 2, 3))}) == 29


def test_chunks_hold_every_trial_once():
    for setting in all_settings((1, 2, 3)):
        numbers = [trial for chunk in chunks(setting, 1, 50) for trial in range(chunk.first, chunk.first + chunk.count)]
        assert numbers == list(range(50))


def test_random_numbers_of_a_trial_depend_on_seed_setting_and_trial_alone():
    together = SMALL.streams(1, 0, 5).standard_normal((5, 3))
    alone = SMALL.streams(1, 3, 1).standard_normal((1, 3))
    assert_array_equal(together[3], alone[0])
    others = [SMALL.streams(2, 3, 1), ngd(20, 0.1).streams(1, 3, 1), SMALL.streams(1, 4, 1)]
    assert all(not np.array_equal(alone, other.standard_normal((1, 3))) for other in others)


# --- what is recorded
# ----------------------------------------------------------------------------------------------------


def test_recorded_times_are_never_far_apart():
    times = np.array([t for t in range(50_000) if compute.is_recorded(t)])
    assert_array_equal(times[:400], np.arange(400))
    assert np.all(np.diff(times) <= np.maximum(1, 1.02 * times[1:] / 200))
    assert compute.is_recorded(EXPERIMENT.cap)


def test_first_times_are_exact_where_every_iteration_is_recorded():
    cond = np.array([[1e6, 5e4, 2e5, 9.0], [1e6, 2e5, 1.5e5, 1.2e5]])
    assert_array_equal(compute.crossing_times(np.arange(4), cond, 1e5), [1.0, np.nan])
    assert_array_equal(compute.crossing_times(np.arange(4), cond, 10.0), [3.0, np.nan])


def test_first_times_between_recorded_ones_follow_the_logarithm():
    times, cond = np.array([1000, 1010, 1020]), 10.0 ** np.array([[6.0, 5.5, 4.5]])
    assert_array_equal(compute.crossing_times(times, cond, 1e5), [1015.0])


def test_quantities_recorded_are_those_of_the_theory():
    rng = np.random.default_rng(1)
    theta = Setting("ngd", 16, 0.5, 3.0, 6).theta(2)
    theta = type(theta)(theta.mean, theta.root + 0.1 * rng.standard_normal(theta.root.shape), 3.0 * theta.scale)
    hessian = hessian_diagonal(6)
    root = np.diag(np.sqrt(hessian))
    assert_allclose(compute.expected_objective(theta, hessian), expected_objective(theta, root), rtol=1e-12)
    assert_allclose(compute.condition(theta, hessian), condition_number(theta, root), rtol=1e-12)


def replayed(setting, seed, trial, iterations):
    """The expected objective along a trial, run by itself."""
    method, noise, hessian = setting.recipe, setting.streams(seed, trial, 1), hessian_diagonal(setting.d)
    state = method.init(setting.theta(1), setting.n)
    for _ in range(iterations):
        sample = method.ask(state, noise, setting.n)
        state, _ = method.tell(state, sample, np.square(sample.x) @ hessian)
        yield float(compute.expected_objective(state.theta, hessian)[0])


def test_trial_ends_in_the_very_iteration_that_reaches_the_target():
    arrays = Chunk(SMALL, 7, 0, 3).compute()
    assert list(arrays["ending"]) == ["reached"] * 3
    for trial, iterations in enumerate(arrays["iterations"]):
        values = list(replayed(SMALL, 7, trial, int(iterations)))
        assert values[-1] <= 1e-10 < min(values[:-1])
        assert_allclose(values[-1], arrays["final_expected"][trial], rtol=1e-6)


def test_curves_end_where_trials_end():
    arrays = Chunk(SMALL, 7, 0, 3).compute()
    after = arrays["times"] > arrays["iterations"][:, None]
    assert_array_equal(np.isnan(arrays["cond"]), after)
    assert_array_equal(np.isnan(arrays["expected"]), after)


# --- how trials fail
# -----------------------------------------------------------------------------------------------------


def test_collapse_of_a_small_sample_at_a_large_rate_is_named():
    arrays = Chunk(ngd(5, 1.0), 1, 0, 3).compute()
    assert list(arrays["ending"]) == ["degenerate"] * 3
    assert np.all(arrays["final_cond"] > EXPERIMENT.degenerate)
    assert np.all(arrays["final_mean_share"] > 0.99)


def test_trial_that_can_select_nothing_is_named():
    arrays = Chunk(Setting("rank-mu", 3, None, 0.0, 4), 1, 0, 2).compute()  # µ = ⌊3/4⌋ = 0
    assert list(arrays["ending"]) == ["no_selection"] * 2
    assert list(arrays["iterations"]) == [EXPERIMENT.patience] * 2


def test_trial_that_takes_too_long_is_named(monkeypatch):
    monkeypatch.setattr(compute, "EXPERIMENT", replace(EXPERIMENT, cap=30))
    arrays = Chunk(SMALL, 1, 0, 2).compute()
    assert list(arrays["ending"]) == ["slow"] * 2
    assert list(arrays["iterations"]) == [30] * 2


def test_failed_trials_are_counted_and_in_no_average():
    result = made_up(ngd(20, 0.5), failed=1, final=9.0, ending="slow")
    assert (result.failed, result.trials, result.failures) == (1, 4, {"slow": 1})
    assert result.mean("final_cond") == 9.0
    assert np.isfinite(result.time_to(10.0))


# --- what is kept
# --------------------------------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path):
    """A file with a stamp, and the arrays in it."""
    path, arrays = tmp_path / "kept.npz", {"numbers": np.arange(5.0), "names": np.array(["a", "bc"])}
    cache.save(path, "stamp", arrays)
    return path, arrays


def test_file_gives_back_what_was_saved(kept):
    path, arrays = kept
    loaded = cache.load(path, "stamp")
    assert loaded.keys() == arrays.keys()
    for name in arrays:
        assert_array_equal(loaded[name], arrays[name])
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


DAMAGES = {
    "cut short": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "overwritten": lambda content: content[:60] + b"\0\0\0\0" + content[64:],
    "of another kind": lambda content: b"PK" + content,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_file_is_not_used(kept, damage):
    path, _ = kept
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    assert cache.load(path, "stamp") is None


def test_file_of_another_run_is_not_used(kept):
    path, _ = kept
    assert cache.load(path, "another stamp") is None
    assert cache.load(path.with_name("missing.npz"), "stamp") is None


def imported(file, package):
    """The files of ours that a file imports names from."""
    for module, name in re.findall(r"^from sublevel\.([\w.]+) import (\w+)", file.read_text(), re.MULTILINE):
        path = package / Path(*module.split("."))
        candidates = path / f"{name}.py", path.with_suffix(".py"), path / "__init__.py"
        yield next(file for file in candidates if file.is_file())


def test_stamp_covers_all_code_that_decides_the_data():
    package = Path(cache.__file__).parents[1]
    reached, waiting = set(), {package / "paper" / "figures" / "compute.py"}
    while waiting:
        reached |= waiting
        waiting = {needed for file in waiting for needed in imported(file, package)} - reached
    assert package / "engine" / "weights" / "volume.py" in reached
    assert not reached - set(cache.source_files(CODE))


def test_unfinished_files_are_cleared_away_and_others_left(tmp_path):
    (tmp_path / (cache.UNFINISHED + "abc")).touch()
    (tmp_path / "mine.tmp").touch()
    cache.prepare(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.tmp"]


def test_failure_to_write_leaves_the_old_file(kept):
    path, arrays = kept
    with pytest.raises(ValueError, match="Object arrays"):
        cache.save(path, "stamp", {"objects": np.array([object()])})
    assert_array_equal(cache.load(path, "stamp")["numbers"], arrays["numbers"])


# --- interrupted, killed, in parallel
# ------------------------------------------------------------------------------------

SCRIPT = """
import sys
from pathlib import Path
from sublevel.paper.figures import Plan, reproduce
from sublevel.paper.progress_bar import ProgressBar
if __name__ == "__main__":
    reproduce(Plan(Path(sys.argv[1]), figures=(3,), trials=2, d=3), int(sys.argv[2]), ProgressBar("test"))
"""


def started(out, jobs, script):
    """A small run in a process of its own; script files can be imported by its workers."""
    script.write_text(SCRIPT)
    return subprocess.Popen(
        [sys.executable, str(script), str(out), str(jobs)], stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def when_something_is_done(process, out, parts=2):
    """Wait until some parts of the data are there."""
    deadline = time.monotonic() + 60
    while len(list(out.glob("data/parts/*.npz"))) < parts:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The directory of a run that nobody disturbed."""
    out = tmp_path_factory.mktemp("undisturbed")
    reproduce(Plan(out, figures=(3,), trials=2, d=3), 2, silent())
    return out


@pytest.mark.parametrize("jobs", [1, 2])
def test_killed_run_continues_to_the_same_summary(tmp_path, undisturbed, jobs):
    out, script = tmp_path / "out", tmp_path / "script.py"
    with started(out, jobs, script) as process:
        when_something_is_done(process, out)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert not (out / "summary.json").exists()
    done = {path: path.stat().st_mtime_ns for path in out.glob("data/parts/*.npz")}
    assert done
    with started(out, jobs, script) as process:
        assert "were computed by an earlier run" in process.stderr.read()
    assert process.returncode == 0
    assert (out / "summary.json").read_bytes() == (undisturbed / "summary.json").read_bytes()


def test_number_of_jobs_does_not_change_the_data(tmp_path, undisturbed):
    plan = Plan(tmp_path, figures=(3,), trials=2, d=3)
    reproduce(plan, 1, silent())
    for setting in all_settings(plan.figures, plan.d):
        here, there = (np.load(folder / "data" / f"{setting.key}.npz") for folder in (tmp_path, undisturbed))
        with here, there:
            assert here.files == there.files
            for name in here.files:
                assert_array_equal(here[name], there[name])
    assert not list(tmp_path.rglob(cache.UNFINISHED + "*"))


def test_finished_run_is_not_computed_again(undisturbed):
    plan = Plan(undisturbed, figures=(3,), trials=2, d=3)
    before = {path: path.stat().st_mtime_ns for path in plan.data.glob("*.npz")}
    summary, said = (undisturbed / "summary.json").read_bytes(), io.StringIO()
    reproduce(plan, 1, ProgressBar("test", said))
    assert {path: path.stat().st_mtime_ns for path in plan.data.glob("*.npz")} == before
    assert (undisturbed / "summary.json").read_bytes() == summary
    assert said.getvalue() == "test: 8 of 8 data files were computed by an earlier run\n"


def test_vanished_part_is_not_taken_for_a_result(tmp_path):
    plan = Plan(tmp_path, figures=(3,), trials=2, d=3)
    with pytest.raises(OSError, match="vanished"):
        plan.data_file(SMALL).finish()


def test_interrupt_ends_a_run_at_once_and_its_workers_too(tmp_path):
    out = tmp_path / "out"
    with started(out, 2, tmp_path / "script.py") as process:
        when_something_is_done(process, out)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        begun = time.monotonic()
        assert "KeyboardInterrupt" in process.stderr.read()  # ends when the last process has let go of it
    assert time.monotonic() - begun < 10
    assert process.returncode != 0


@dataclass(frozen=True)
class Failing:
    """A unit of work that fails."""

    key: str = "failing"
    cost: float = 1.0

    def compute(self):
        raise ArithmeticError


class Dying(Failing):
    """A unit of work whose process dies."""

    def compute(self):
        os._exit(1)


@pytest.mark.parametrize(("work", "error"), [(Failing(), ArithmeticError), (Dying(), runner.WorkerLost)])
def test_failure_of_a_task_is_not_lost(tmp_path, work, error):
    with pytest.raises(error):
        runner.run_tasks([runner.Task(tmp_path / "never.npz", "stamp", work)], 1, silent())


def test_workers_leave_the_environment_of_others_alone(tmp_path):
    before = dict(os.environ)
    task = runner.Task(tmp_path / "threads.npz", "stamp", Threads())
    assert not runner.run_tasks([task], 1, silent())
    assert task.load()["threads"] == "1"
    assert dict(os.environ) == before
    assert runner.run_tasks([task], 1, silent())


def test_task_leaves_its_result_in_its_file(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    task = runner.Task(tmp_path / "threads.npz", "stamp", Threads())
    assert task.load() is None
    task.run()
    assert task.load() == {"threads": "3"}


class Threads(Failing):
    """A unit of work that returns the number of BLAS threads of its process."""

    def compute(self):
        return {"threads": np.array(os.environ["OPENBLAS_NUM_THREADS"])}


# --- what comes out
# ------------------------------------------------------------------------------------------------------


def test_summary_has_the_keys_others_rely_on(undisturbed):
    rows = json.loads((undisturbed / "summary.json").read_text(), parse_constant=pytest.fail)
    assert len(rows) == 8
    assert all(list(row) == KEYS for row in rows)
    assert {(row["method"], row["n"], row["c_C"], row["m0"]) for row in rows} == {
        *(("ngd", n, rate, m0) for n, rate in ((3, 0.14), (9, 0.75)) for m0 in (0, 10)),
        *(("rank-mu", n, None, m0) for n in (3, 9) for m0 in (0, 10)),
    }
    assert all(row["trials"] == 2 and row["figure"] == 3 for row in rows)


def test_summary_of_a_setting_without_success_has_no_means():
    row = summary_row(1, made_up(ngd(5, 0.5)))
    assert (row["failed"], row["iterations"], row["cond_final"], row["iterations_to_cond10"]) == (4, None, None, None)


def test_data_carries_configuration_seed_and_version(undisturbed):
    with np.load(undisturbed / "data" / "rank-mu-d3-n9-m10.npz", allow_pickle=False) as file:
        config = json.loads(str(file["config"]))
    assert config.items() >= {"method": "rank-mu", "n": 9, "c_C": None, "m0": 10.0, "d": 3, "trials": 2}.items()
    assert {"seed", "version", "numpy", "target"} <= config.keys()


@pytest.mark.parametrize("figure", [1, 2, 3])
def test_figures_are_drawn_from_any_results(tmp_path, figure):
    from sublevel.paper.figures.draw import draw_figures

    paths = draw_figures((figure,), paper_results(), 20, tmp_path)
    assert b"<svg" in paths[figure].read_bytes()[:1000]
    assert paths[figure].with_suffix(".png").read_bytes()[:4] == b"\x89PNG"


def test_no_curve_passes_behind_the_number_of_failed_trials():
    """With the ends of the curves of a real run, one of which was behind a label at the lower right."""
    from sublevel.paper.figures.draw import figure_1

    ends = {
        ngd(20, 0.5): {"failed": 3, "iterations": 1600, "final": 8.6},
        ngd(90, 0.5): {"iterations": 780, "final": 3},
    }
    figure = figure_1(paper_results() | {setting: made_up(setting, **numbers) for setting, numbers in ends.items()}, 20)
    figure.canvas.draw()
    for panel in figure.axes[1:3]:
        labels = [text.get_window_extent() for text in panel.texts]
        assert len(labels) >= 2
        points = np.concatenate([line.get_transform().transform(line.get_xydata()) for line in panel.lines])
        assert not any(label.count_contains(points) for label in labels)


# --- statements
# ----------------------------------------------------------------------------------------------------------

LEARNED_AT_D = made_up(rank_mu(20, 10.0)).arrays["first_times"][0]
DOCTORED = {
    "n = d³, c_C = 0.1: the final": (ngd(8000, 0.1), {"final": 1.16}),
    "n = d³, c_C = 0.5: the final": (ngd(8000, 0.5), {"final": 1.2}),
    "n = d³, c_C = 1.0: the final": (ngd(8000, 1.0), {"final": 1.5}),
    "follows the theoretical curve": (ngd(8000, 0.1), {"times": [46, 92, 141, 195, 263]}),
    "larger the sample, the closer": (ngd(400, 0.1), {"times": 900}),
    "more than 30 times longer": (ngd(5, 0.1), {"times": [1e3, 2e3, 3e3, 4e3, 7600]}),
    "Cond(CA) ≈ 4.0": (ngd(5, 0.1), {"final": 4.7}),
    "still works successfully": (ngd(5, 0.1), {"failed": 1}),
    "none omitted": (ngd(400, 0.1), {"failed": 2}),
    "Larger learning rates": (ngd(1789, 0.5), {"final": 1.1}),
    "Some results are omitted": (ngd(20, 0.5), {"failed": 0}),
    "Some results are omitted, for example": (ngd(8000, 1.0), {"failed": 1}),
    "slower adaptation at the beginning": (ngd(400, 0.1, 10.0), {"times": 70}),
    "especially in case a small sample": (ngd(20, 0.1, 10.0), {"times": [470, 1000, 2000, 3000, 4000]}),
    "adaptation does not change in theory": (ngd(20, 0.1, 10.0), {"final": 3.0}),
    "the expected objective from m⁰ = 0": (rank_mu(20), {"iterations": 6700}),
    "the expected objective from m⁰ = (10, …, 10)": (rank_mu(400, 10.0), {"iterations": 260}),
    "the condition number from m⁰ = 0": (rank_mu(400), {"times": 200}),
    "the condition number from m⁰ = (10, …, 10)": (rank_mu(20, 10.0), {"times": 10}),
    "condition number from m⁰ = (10, …, 10)": (ngd(20, 0.14, 10.0), {"times": 1.3 * LEARNED_AT_D}),
    "also observed for rank-µ": (rank_mu(400, 10.0), {"times": 9}),
}


def test_statements_are_found_in_the_results_of_the_paper():
    rows = statements(paper_results())
    assert len(rows) == 19
    assert [row.paper for row in rows if not row.found] == []
    assert verdict_line(rows) == "All 19 statements of the paper were found."
    named = "All 19 statements of the paper were found, with 4 trials of each setting."
    assert verdict_line(rows, paper_results()) == named


def test_window_is_the_last_digit_of_the_paper_and_the_sampling_error():
    exact = made_up(ngd(8000, 1.0), final=1.55)
    assert_allclose(window(exact, "final_cond"), 0.05)
    spread = made_up(ngd(8000, 1.0))
    spread.arrays["final_cond"] = np.array([1.5, 1.6, 1.6, 1.7])
    t = 12.924  # of Student's distribution with 3 degrees of freedom, from a table
    assert_allclose(window(spread, "final_cond"), 0.05 + t * np.sqrt(0.02 / 3) * np.sqrt(1 / 50 + 1 / 4), rtol=1e-4)


def test_one_trial_has_no_deviation_and_refutes_nothing():
    assert window(made_up(ngd(8000, 1.0), failed=3), "final_cond") == np.inf


@pytest.mark.parametrize("trials", [4, 8, 50])
def test_true_final_condition_is_found_for_all_but_a_thousandth_of_seeds(rng, trials):
    """A paper that prints all digits: its mean is of 50 trials, and the deviation is estimated from ours."""
    deviation, count = 0.045, 20_000
    ours = deviation * rng.standard_normal((count, trials))
    theirs = deviation / np.sqrt(50) * rng.standard_normal(count)
    alarms = 0
    for trial, paper in zip(ours, theirs, strict=True):
        result = Result(ngd(8000, 1.0), {"ending": np.full(trials, "reached"), "final_cond": trial})
        alarms += abs(result.mean("final_cond") - paper) > window(result, "final_cond", digit=0.0)
    assert 2 <= alarms <= 42  # 20 expected, five standard deviations


def test_equal_times_within_the_margin_are_found_and_too_few_trials_show_nothing(rng):
    """`same_adaptation` at a ratio of 1.1, with a standard deviation of 5 % or of 60 % of four trials."""

    def verdict(deviation: float) -> list[bool]:
        results = paper_results()
        for setting in (ngd(20, 0.14, 10.0), rank_mu(20, 10.0)):
            times = results[setting].arrays["first_times"]
            factor = 1.1 if setting.method == "ngd" else 1.0
            results[setting].arrays["first_times"] = (
                factor * times * (1 + deviation * np.array([-1, 1, 1, -1]))[:, None]
            )
        return [row.found for row in statements(results) if "condition number from m⁰ = (10" in row.paper]

    assert verdict(0.05) == [True]
    assert verdict(0.6) == [False]


def test_a_ratio_at_the_edge_of_the_margin_is_called_equivalent_once_in_twenty_times(rng):
    edge = 0
    for _ in range(4000):
        first, second = 1.25 * (1 + 0.1 * rng.standard_normal(10)), 1 + 0.05 * rng.standard_normal(6)
        edge += ratio_of_means(first, second).is_within(0.8, 1.25)
    assert 0.035 < edge / 4000 < 0.065
    assert ratio_of_means(np.array([2.0, 2.0]), np.array([1.0, 1.0])) == Interval(2.0, 2.0, 2.0)
    assert not ratio_of_means(np.array([1.0]), np.array([1.0, 1.0])).is_within(0.8, 1.25)
    assert not ratio_of_means(np.array([]), np.array([1.0, 1.0])).is_within(0.8, 1.25)
    assert not ratio_of_means(np.array([1.0, np.nan]), np.array([1.0, 1.0])).is_within(0.8, 1.25)


def test_caption_says_how_many_trials_survived_and_what_degenerate_means():
    text = caption(1, paper_results((ngd(90, 1.0), {"failed": 3})))
    assert "1 of 4 trials at n = 90, c_C = 1." in text
    assert "no average, at n = 5, c_C = 0.5; n = 20, c_C = 0.5" in text
    assert "degenerate if Cond(CA) grew beyond 1e+14" in text
    fine = {setting: result for setting, result in paper_results().items() if not result.failed}
    assert "failed trial is" not in caption(1, fine)


@pytest.mark.parametrize("words", DOCTORED)
def test_every_statement_can_be_refuted(words):
    rows = [row for row in statements(paper_results(DOCTORED[words])) if words in row.paper]
    assert [row.verdict for row in rows] == ["NOT FOUND"]


def test_every_statement_has_been_refuted():
    papers = [row.paper for row in statements(paper_results())]
    assert all(any(words in paper for words in DOCTORED) for paper in papers)


def test_numbers_that_are_missing_refute():
    rows = statements(paper_results((ngd(8000, 0.1), {"failed": 4})))
    assert sum(not row.found for row in rows) > 5


def test_statements_about_what_was_not_run_are_left_out():
    results = {setting: result for setting, result in paper_results().items() if setting in figure_settings(2)}
    assert {row.figure for row in statements(results)} == {1, 2}  # figure 2 holds the curve of n = d³, c_C = 0.1
    assert statements({}) == []
    assert "No statement" in verdict_line([])


def test_theory_takes_227_iterations_to_condition_ten():
    assert predicted_times(1e6, 0.05, np.array(10.0)) == 227


# --- report
# --------------------------------------------------------------------------------------------------------------


def report(results, tmp_path):
    """The page of some results, with an empty picture."""
    picture = tmp_path / "figure-1.svg"
    picture.write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    return page(statements(results), results, {1: picture}, Facts(seed=1, jobs=2, seconds=200.0, reused=True))


def test_report_is_all_green_for_the_results_of_the_paper(tmp_path):
    text = report(paper_results(), tmp_path)
    assert text.count('<tr class="yes">') == 19
    assert '<tr class="no">' not in text
    assert "premature convergence" in text


def test_report_shows_a_statement_that_was_not_found(tmp_path):
    text = report(paper_results(DOCTORED["Cond(CA) ≈ 4.0"]), tmp_path)
    row = next(line for line in text.splitlines() if 'class="no"' in line)
    assert "4.70" in row
    assert "NOT FOUND" in row
    assert "18 of 19 statements of the paper were found, 1 not, with 4 trials of each setting." in text


def test_report_names_failures_and_needs_nothing_from_elsewhere(tmp_path):
    text = report(paper_results((ngd(90, 1.0), {"failed": 2, "ending": "slow"})), tmp_path)
    assert "2 of 4 failed (slow)" in text
    assert "100000 iterations were reached" in text
    assert set(re.findall(r'(?:src|href)="(data:)?', text)) == {"data:"}
    assert "<script" not in text


def test_report_says_when_nothing_failed(tmp_path):
    results = {setting: result for setting, result in paper_results().items() if not result.failed}
    assert "every trial of every setting reached the target" in report(results, tmp_path)


def test_table_holds_every_statement_and_verdict():
    rows = statements(paper_results(DOCTORED["still works successfully"]))
    text = table(rows)
    assert text.count("NOT FOUND") == sum(not row.found for row in rows) > 0
    assert max(len(line) for line in text.splitlines()) <= 120


# --- progress
# ------------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def test_bar_shows_part_done_and_time_left():
    stream = Terminal()
    progress = ProgressBar("reproduce", stream)
    progress.begin([3.0, 1.0], [False, True])
    progress.advance(1.5)
    progress.refresh()
    progress.end()
    assert "1 of 2 parts were computed by an earlier run" in stream.getvalue()
    assert re.search(r"62 %.*left", stream.getvalue())


def test_lines_take_the_place_of_a_bar_without_a_terminal():
    stream = io.StringIO()
    progress = ProgressBar("reproduce", stream, interval=0.0)
    progress.begin([3.0, 1.0], [False, False])
    progress.refresh()
    progress.advance(3.0)
    progress.refresh()
    assert re.fullmatch(
        r"reproduce: 0 % done, no estimate yet\nreproduce: 75 % done, about \d+ s left\n", stream.getvalue()
    )


def test_durations_are_said_as_people_do():
    assert (duration(59.6), duration(600)) == ("60 s", "10 min")
