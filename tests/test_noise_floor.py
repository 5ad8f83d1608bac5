"""A run that has reached the noise of its objective ends; one without noise does not; only the order of the values
decides.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.integrate import odeint
from scipy.stats import mannwhitneyu

import sublevel as sl
from helpers.functions import ellipsoid, rastrigin, sphere
from sublevel.cli.main import main
from sublevel.engine.ordering import ranking
from sublevel.run.noise_floor import fall_score, is_falling, rank_scores, rank_signal
from sublevel.run.termination import SUCCESSES, Standing, Tolerances, Window, find_reason
from sublevel.store.fingerprint import fingerprint


def rough(X):
    """An ellipsoid with jumps of up to 1e-9, which are the same at the same point."""
    return ellipsoid(X) + 1e-9 * np.modf(1e4 * np.sin(1e12 * np.sum(X, axis=-1)))[0]


def fit(rtol):
    """Sum of squares of a Lotka-Volterra model, which LSODA solves to a tolerance."""
    times, parameters = np.linspace(0, 10, 21), np.array([1.1, 0.1, 0.1, 0.4])

    def solve(p, rtol):
        right = lambda y, t: [p[0] * y[0] - p[1] * y[0] * y[1], p[2] * y[0] * y[1] - p[3] * y[1]]  # noqa: E731
        return odeint(right, [10.0, 5.0], times, rtol=rtol, atol=1e-3 * rtol)

    clean = solve(parameters, 1e-11)
    data = clean + 0.03 * np.random.default_rng(0).standard_normal(clean.shape) * clean.std(axis=0)
    return lambda p: float(np.sum(np.square((solve(p, rtol) - data) / clean.std(axis=0)))), parameters * np.exp(
        [0.3, -0.3, 0.2, 0.3]
    )


def solved(fun, d=4, **options):
    return sl.minimize(fun, np.full(d, 0.7), 0.5, **{"rng": 1, "vectorized": True, "maxfevals": 2e4} | options)


# When it ends


def test_a_run_ends_at_the_noise_of_its_objective():
    ended, longer = solved(rough), solved(rough, noise_floor=False)
    assert list(ended.reasons) == ["noise_floor"]
    assert ended.success
    assert "noise" in ended.message
    assert "noise_floor=False" in ended.message
    assert ended.nfev < 0.6 * longer.nfev
    assert ended.fun - longer.fun < 1e-9
    assert "noise_floor" not in longer.reasons


def test_a_fit_of_an_ode_ends_at_the_precision_of_the_solver():
    fun, x0 = fit(1e-3)
    ended, longer = (
        sl.minimize(fun, x0, 0.3, log_scaled=True, rng=1, maxfevals=2500, noise_floor=on) for on in (True, False)
    )
    assert list(ended.reasons) == ["noise_floor"]
    assert list(longer.reasons) == ["maxfevals"]
    assert ended.fun - longer.fun < 1e-13


@pytest.mark.parametrize("method", ["cma", "sep-cma", "xnes", "ngd", "rank-mu"])
@pytest.mark.parametrize(
    "fun",
    [sphere, ellipsoid, rastrigin, lambda X: np.abs(X).sum(axis=-1)],
    ids=["sphere", "ellipsoid", "rastrigin", "abs"],
)
def test_runs_without_noise_do_not_end_so(fun, method):
    assert "noise_floor" not in solved(fun, method=method).reasons


def test_strong_noise_is_no_success():
    """The search loses its way when it is still wide: it has not converged."""
    noise = np.random.default_rng(2)
    result = solved(lambda X: sphere(X) + noise.standard_normal(len(X)))
    assert not result.success
    assert set(result.reasons) <= {"stagnation", "ill_conditioned"}


@pytest.mark.parametrize(
    "g", [np.cbrt, lambda f: 2.0**40 * f, lambda f: np.sign(f) * np.sqrt(np.abs(f))], ids=["cbrt", "scaled", "sqrt"]
)
def test_the_end_does_not_notice_an_increasing_g(g):
    plain, composed = solved(rough), solved(lambda X: g(rough(X)))
    assert composed.reasons == plain.reasons == {"noise_floor": plain.reasons["noise_floor"]}
    assert composed.nit == plain.nit
    np.testing.assert_array_equal(composed.x, plain.x)


def test_a_slow_search_is_left_to_average_over_noise():
    window = Window(1000, [k % 7 for k in range(200)], [k % 11 for k in range(200)])
    standing = Standing(np.ones(2), generations=200, latest=0.0, lowest=0.0, signal=0.0, was_informed=True)
    theta = sl.FullGaussian(np.zeros(2), np.eye(2), np.float64(1e-4))

    def reason(pace, tolerances=Tolerances()):  # noqa: B008
        return find_reason(standing, window, tolerances, theta, theta.deviations, 6, lambda: pace)

    assert reason(0.1) is None
    assert reason(1.0).name == "noise_floor"
    assert reason(1.0, Tolerances(noise_floor=False)) is None


# With everything else


def test_restarts_follow():
    result = solved(rough, restarts=sl.IPOP(2, 1.0))
    assert [list(run.reasons) for run in result.history.runs] == [["noise_floor"]] * 3
    assert result.success
    assert "noise_floor" in SUCCESSES


@pytest.mark.parametrize(
    "options", [{"bounds": (-1, 2)}, {"method": "sep-cma"}, {"method": "xnes"}, {"method": "rank-mu"}], ids=str
)
def test_it_is_found_with_bounds_and_by_other_methods(options):
    assert list(solved(rough, 3, **{"maxfevals": 1e5} | options).reasons) == ["noise_floor"]


def test_sharded_runs_notice_if_squares_are_known():
    given = {"popsize": 40, "shards": 2, "rng": 1}
    assert list(sl.minimize_sharded(rough, np.full(3, 0.7), 0.5, **given).reasons) == ["noise_floor"]
    assert list(sl.minimize_sharded(rough, np.full(3, 0.7), 0.5, noise_floor=False, maxiter=400, **given).reasons) != [
        "noise_floor"
    ]


def test_a_method_on_bits_has_no_noise_floor():
    result = sl.minimize(
        lambda X: X.sum(axis=1), np.full(8, 0.5), None, method="pbil", vectorized=True, rng=1, maxfevals=3000
    )
    assert "noise_floor" not in result.reasons


def test_the_diagnosis_tells_the_scatter_of_the_values():
    finding = next(finding for finding in solved(rough).diagnosis if finding.name == "noise_floor")
    assert 1e-11 < finding.numbers["scatter"] < 2e-9
    assert finding.numbers["shrinkage"] < 1e-3
    assert "solver tolerance" in finding.sentence
    assert "rounding" not in finding.sentence
    assert all(finding.name not in ("noise_floor", "noisy") for finding in solved(sphere).diagnosis)


@pytest.mark.parametrize("offset", [1.0, -1e6])
def test_the_diagnosis_tells_rounding_from_noise(offset):
    """Values that scatter by a few units in the last digits cannot be more precise."""
    result = solved(lambda X: offset + abs(offset) * (ellipsoid(X) + 2e-4 * (rough(X) - ellipsoid(X))))
    assert list(result.reasons) == ["noise_floor"]
    finding = next(finding for finding in result.diagnosis if finding.name == "noise_floor")
    assert 0 < finding.numbers["scatter"] < 1e-12 * abs(offset)
    assert "rounding" in finding.sentence
    assert "more precise objective" not in finding.sentence
    assert "more precise" not in result.message


def test_it_is_stored_and_goes_on_bit_for_bit(tmp_path):
    whole = solved(rough, store=tmp_path / "a.db")
    for name, cut in (("b", 60), ("c", whole.nit - 3)):
        solved(rough, maxiter=cut, store=tmp_path / f"{name}.db")
        resumed = sl.resume(tmp_path / f"{name}.db", rough, maxiter=10_000)
        assert resumed.reasons == whole.reasons
        assert fingerprint(tmp_path / f"{name}.db") == fingerprint(tmp_path / "a.db")


def test_a_run_that_ended_so_goes_on_without_it(tmp_path):
    given = {"maxfevals": 4000}
    ended = solved(rough, store=tmp_path / "a.db", **given)
    assert list(sl.resume(tmp_path / "a.db", rough).reasons) == ["noise_floor"]
    longer = sl.resume(tmp_path / "a.db", rough, noise_floor=False)
    whole = solved(rough, store=tmp_path / "b.db", noise_floor=False, **given)
    assert longer.nfev == whole.nfev > ended.nfev
    np.testing.assert_array_equal(longer.x, whole.x)
    assert fingerprint(tmp_path / "a.db") == fingerprint(tmp_path / "b.db")


def test_it_cannot_be_changed_in_a_run_with_restarts(tmp_path):
    solved(sphere, maxfevals=100, restarts=2, store=tmp_path / "a.db")
    with pytest.raises(ValueError, match="`noise_floor` must be those that the run was started with"):
        sl.resume(tmp_path / "a.db", sphere, noise_floor=False)


def test_an_optimizer_that_is_pickled_ends_in_the_same_generation():
    opt = sl.Optimizer(np.full(4, 0.7), 0.5, rng=1)
    while not opt.stop():
        if opt.nit == 150:
            opt = pickle.loads(pickle.dumps(opt))
        X = opt.ask()
        opt.tell(X, rough(X))
    assert opt.stop() == solved(rough, evaluate_x0=False).reasons
    assert opt.nit == solved(rough).nit


def test_it_is_true_or_false():
    with pytest.raises(TypeError, match="`noise_floor` must be True or False"):
        solved(sphere, noise_floor=1e-3)


def test_the_command_line_turns_it_off(tmp_path, capsys):
    (tmp_path / "problem.py").write_text(
        "import numpy as np\n\ndef rough(x):\n    return float(x @ x + 1e-9 * np.modf(1e4 * np.sin(1e12 * "
        "np.sum(x)))[0])\n"
    )
    words = [
        "minimize",
        f"{tmp_path / 'problem.py'}:rough",
        "--x0",
        "0.7,0.7",
        "--sigma0",
        "0.5",
        "--seed",
        "1",
        "--maxfevals",
        "3000",
    ]
    assert main(words) == 0
    assert "noise of the objective" in capsys.readouterr().out
    main([*words, "--no-noise-floor"])
    assert "noise of the objective" not in capsys.readouterr().out


# Statistics


def test_the_signal_has_mean_0_and_variance_1_for_noise_and_is_large_on_a_quadratic():
    rng, scores = np.random.default_rng(1), rank_scores(4, 8)
    z = rng.standard_normal((4000, 8, 4))
    squares = np.vecdot(z, z)
    noise = np.array([rank_signal(scores, ranking(rng.standard_normal(8)), row) for row in squares])
    assert abs(noise.mean()) < 4 / np.sqrt(4000)
    assert noise.var() == pytest.approx(1, abs=0.15)
    assert np.mean([rank_signal(scores, ranking(row), row) for row in squares]) > 2


def test_ties_add_nothing_to_the_signal():
    scores, squares = rank_scores(2, 4), np.array([1.0, 5.0, 2.0, 9.0])
    assert rank_signal(scores, ranking(np.zeros(4)), squares) == pytest.approx(0, abs=1e-15)
    tied = rank_signal(scores, ranking(np.array([0.0, 0.0, 1.0, 1.0])), squares)
    both = [
        rank_signal(scores, ranking(np.array(values)), squares)
        for values in ([0.0, 0.1, 1.0, 1.1], [0.1, 0.0, 1.1, 1.0])
    ]
    assert tied == pytest.approx(np.mean(both))


@pytest.mark.parametrize("size", [24, 25])
def test_the_fall_score_is_that_of_mann_and_whitney(size):
    values = np.round(np.random.default_rng(size).standard_normal(size), 6)
    half = size // 2
    expected = mannwhitneyu(
        values[:half], values[half:], use_continuity=False, method="asymptotic", alternative="greater"
    )
    u = expected.statistic
    assert fall_score(values) == pytest.approx(
        (u - half * (size - half) / 2) / np.sqrt(half * (size - half) * (size + 1) / 12)
    )
    assert fall_score(np.arange(20.0)[::-1]) > 3 > -3 > fall_score(np.arange(20.0))
    assert fall_score(np.append(np.full(10, np.nan), np.zeros(10))) > 3


def test_values_fall_if_a_new_lowest_one_was_found_lately():
    level = np.tile([2.0, 1.0, 3.0], 8)
    assert not is_falling(level, level, 1.0)
    lower = level.copy()
    lower[-2] = 0.5
    assert is_falling(lower, level, 0.5)
    assert not is_falling(lower, level, 0.1)
