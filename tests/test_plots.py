"""Pictures: they are drawn for every kind of run, show what they say, and the animation moves."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sublevel as sl
from sublevel import plots

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")
Image = pytest.importorskip("PIL.Image")


def ellipsoid(x):
    """Condition number 1e4."""
    return np.square(x) @ 10.0 ** (4 * np.arange(x.shape[-1]) / max(x.shape[-1] - 1, 1))


def rastrigin(x):
    return 10 * x.shape[-1] + np.sum(np.square(x) - 10 * np.cos(2 * np.pi * x), axis=-1)


def finished(fun, d, **settings):
    sigma0 = settings.pop("sigma0", 0.5)
    return sl.minimize(fun, np.full(d, 0.8), sigma0, vectorized=True, **{"rng": 1, "maxfevals": 3000, **settings})


RUNS = {
    "plain": lambda: finished(ellipsoid, 5),
    "one variable": lambda: finished(ellipsoid, 1),
    "many variables": lambda: finished(ellipsoid, 30, maxfevals=1000),
    "negative values": lambda: finished(lambda x: ellipsoid(x) - 1e3, 4),
    "restarts": lambda: finished(rastrigin, 3, restarts="bipop", maxfevals=6000),
    "diagonal": lambda: finished(ellipsoid, 5, method="sep-cma"),
    "bits": lambda: finished(lambda x: x.sum(axis=-1), 5, method="pbil", sigma0=None, popsize=20),
    "bounds": lambda: finished(ellipsoid, 3, bounds=[(0.5, 1), (0.8, 0.8), (1e-3, 9)], log_scaled=[False, False, True]),
    "one generation": lambda: finished(ellipsoid, 3, maxiter=1),
    "flat": lambda: finished(lambda x: 0 * x[:, 0], 3),
    "failed": lambda: finished(lambda x: np.where(x[:, 0] > 0.8, np.nan, ellipsoid(x)), 3, maxfevals=500),
    "no value at all": lambda: finished(lambda x: np.full(len(x), np.nan), 3),
    "unbounded": lambda: finished(lambda x: np.where(x[:, 0] > 1.5, -np.inf, x[:, 0]), 3),
}


def is_picture(file):
    with Image.open(file) as picture:
        return len(set(picture.convert("L").tobytes())) > 20


@pytest.mark.parametrize("name", RUNS)
def test_every_run_can_be_drawn(name, tmp_path):
    assert RUNS[name]().plot(tmp_path / "run.png").shape == (2, 2)
    assert is_picture(tmp_path / "run.png")


@pytest.mark.parametrize("name", ["one variable", "many variables", "bounds", "diagonal"])
def test_every_correlation_can_be_drawn(name, tmp_path):
    plots.correlation(RUNS[name](), tmp_path / "correlation.png")
    assert is_picture(tmp_path / "correlation.png")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A run and its four panels."""
    result = RUNS["plain"]()
    return result, result.plot(tmp_path_factory.mktemp("plots") / "run.png")


def curve(axis, label):
    return next(line for line in axis.get_lines() if line.get_label() == label).get_xydata().T


def test_the_first_panel_shows_values_step_size_and_axis_ratio(drawn):
    result, axes = drawn
    nfev, best = curve(axes[0, 0], "f")
    np.testing.assert_array_equal(nfev, result.history["nfev"])
    np.testing.assert_array_equal(best, result.history["best"])
    trace = result.history.trace()
    np.testing.assert_array_equal(curve(axes[0, 0], "step size σ"), [trace.nfev, trace.sigma])
    np.testing.assert_array_equal(curve(axes[0, 0], "axis ratio"), [trace.nfev, trace.axis_ratio])


def test_the_other_panels_show_a_curve_for_each_variable_and_axis(drawn):
    result, axes = drawn
    trace = result.history.trace()
    for axis, columns in ((axes[0, 1], trace.mean), (axes[1, 0], trace.axes), (axes[1, 1], trace.deviations)):
        drawn = [line.get_ydata() for line in axis.get_lines()]
        np.testing.assert_array_equal(drawn, columns.T)
    assert [text.get_text() for text in axes[0, 1].texts] == [f"x[{i}]" for i in range(5)]


def colours(axis):
    """Colour of each name, and of each curve."""
    return {text.get_text(): text.get_color() for text in axis.texts}, [line.get_color() for line in axis.get_lines()]


def test_a_variable_has_one_colour_even_if_others_are_fixed(tmp_path):
    axes = finished(ellipsoid, 3, bounds=[(0.8, 0.8), (None, None), (None, None)]).plot(tmp_path / "run.png")
    means, deviations = colours(axes[0, 1]), colours(axes[1, 1])
    assert means == ({"x[0]": "C0", "x[1]": "C1", "x[2]": "C2"}, ["C0", "C1", "C2"])
    assert deviations == ({"x[1]": "C1", "x[2]": "C2"}, ["C1", "C2"])
    assert set(colours(axes[1, 0])[1]).isdisjoint(means[1])  # axes are no variables


def test_the_mean_of_a_log_scaled_variable_is_shown_by_its_logarithm(tmp_path):
    settings = {"log_scaled": [True, False, True], "bounds": [(None, None), (None, None), (0.8, 0.8)]}
    result = finished(lambda x: (np.log(x[:, 0]) + 9) ** 2 + x[:, 1] ** 2, 3, **settings)
    panel, mean = result.plot(tmp_path / "run.png")[0, 1], result.history.trace().mean
    np.testing.assert_allclose([line.get_ydata() for line in panel.get_lines()], [np.log(mean[:, 0]), mean[:, 1], mean[:, 2]])
    assert [text.get_text() for text in panel.texts] == ["ln x[0]", "x[1]", "x[2]"]


def test_values_that_are_not_positive_are_shown_above_the_lowest(tmp_path):
    result = finished(lambda x: ellipsoid(x) - 1e3, 4)
    axis = result.plot(tmp_path / "run.png")[0, 0]
    assert "f + 1000" in [text.get_text() for text in axis.get_legend().get_texts()]


def test_curves_of_different_runs_are_not_joined(tmp_path):
    result = finished(rastrigin, 3, restarts=2, maxfevals=20_000)
    axes = result.plot(tmp_path / "run.png")
    assert result.restarts == 2
    assert len([line for line in axes[1, 0].get_lines() if len(line.get_xdata()) > 2]) == 3 * 3


def test_correlations_are_those_of_the_last_distribution(tmp_path):
    result = finished(lambda x: (x[:, 0] + x[:, 1]) ** 2 + 0.01 * (x[:, 0] - x[:, 1]) ** 2, 2)
    image = plots.correlation(result, tmp_path / "c.png").get_images()[0].get_array()
    deviations = np.sqrt(np.diag(result.cov))
    np.testing.assert_allclose(image, result.cov / np.outer(deviations, deviations))
    assert image[0, 1] < -0.9


def test_a_history_alone_will_do(tmp_path):
    opt = sl.Optimizer(np.ones(3), 0.5, rng=1)
    history = sl.History(opt)
    for _ in range(20):
        X = opt.ask()
        opt.tell(X, ellipsoid(X))
        history.see(opt)
    plots.convergence(history, tmp_path / "run.png")
    assert is_picture(tmp_path / "run.png")


def test_without_a_file_the_figure_is_pyplots():
    from matplotlib import pyplot

    axes = finished(ellipsoid, 2, maxiter=5).plot()
    assert pyplot.gcf() is axes[0, 0].figure
    pyplot.close("all")


def test_a_picture_for_a_file_leaves_pyplot_alone(tmp_path):
    from matplotlib import pyplot

    finished(ellipsoid, 2, maxiter=5).plot(tmp_path / "run.svg")
    assert pyplot.get_fignums() == []


def test_labels_stay_apart_and_near_their_curves():
    places = plots._apart(np.array([0.5, 0.5, 0.5, 0.1, 0.99]), 0.05)
    assert np.diff(np.sort(places)).min() > 0.05 - 1e-12
    np.testing.assert_allclose(places[:3].mean(), 0.5)
    np.testing.assert_allclose(places[3:], [0.1, 0.99])
    assert plots._apart(np.full(4, 0.0), 0.1).min() == 0.0
    assert plots._apart(np.full(4, 1.0), 0.1).max() == 1.0


# ---------------------------------------------------------------------------------------------------- animation


@pytest.mark.parametrize("d", [2, 4])
def test_an_animation_has_frames_that_differ(d, tmp_path):
    result = finished(ellipsoid, d, maxfevals=300)
    plots.animate(ellipsoid, result, tmp_path / "run.gif", vectorized=True, variables=(1, 0), frames=3)
    with Image.open(tmp_path / "run.gif") as picture:
        frames = []
        for index in range(picture.n_frames):
            picture.seek(index)
            frames.append(picture.convert("RGB").tobytes())
    assert len(set(frames)) == len(frames) == 3


def test_an_animation_asks_nothing_outside_the_bounds(tmp_path):
    asked = []

    def fun(x):
        asked.append(x)
        return float(ellipsoid(x))

    result = sl.minimize(lambda x: float(ellipsoid(x)), [1.0, 1.0, 2.0], 0.3, bounds=[(0.5, 1.5), (None, None), (2, 2)], rng=1, maxiter=30)
    plots.animate(fun, result, tmp_path / "run.gif", frames=2)
    points = np.array(asked)
    assert points[:, 0].min() >= 0.5
    assert set(points[:, 2]) == {2.0}


@pytest.mark.parametrize("bounds", [None, [(0, 2), (None, None)]])
def test_an_animation_asks_log_scaled_variables_where_they_are_positive(bounds, tmp_path):
    asked = []

    def fun(x):
        asked.append(x[0])
        return (math.log(x[0]) + 4) ** 2 + x[1] ** 2

    result = sl.minimize(fun, [1e-2, 1.0], [1.0, 0.3], log_scaled=[True, False], bounds=bounds, rng=1, maxfevals=200)
    asked.clear()
    plots.animate(fun, result, tmp_path / "run.gif", frames=3)
    assert is_picture(tmp_path / "run.gif")
    assert len(asked) > 4900
    assert min(asked) > 0
    assert bounds is None or max(asked) <= 2


def test_an_animation_evaluates_each_view_once(tmp_path):
    calls = []

    def fun(x):
        calls.append(len(x))
        return ellipsoid(x)

    result = finished(ellipsoid, 2, maxfevals=300)
    animation = plots.animate(fun, result, tmp_path / "run.gif", vectorized=True, frames=3)
    assert calls == [4900] * 4
    animation.save(tmp_path / "again.gif", writer="pillow")
    assert calls == [4900] * 4


def test_an_animation_needs_two_variables_that_are_searched():
    result = sl.minimize(ellipsoid, [1.0, 1.0, 2.0], 0.3, bounds=[(0.5, 1.5), (None, None), (2, 2)], rng=1, maxiter=3)
    for variables in ((0, 0), (0, 2), (0, 5)):
        with pytest.raises(ValueError, match=r"`variables`.*\[0, 1\]"):
            plots.animate(ellipsoid, result, variables=variables)


def test_the_ellipse_is_that_of_the_distribution():
    result = finished(ellipsoid, 4, maxfevals=400)
    plane = plots._Plane(result.history, ellipsoid, result.x, (3, 1), True)
    outline = plane.ellipse(-1, 2.0)
    cov = result.cov[np.ix_([3, 1], [3, 1])]
    centred = outline - result.mean[[3, 1]][:, None]
    np.testing.assert_allclose(np.einsum("in,ij,jn->n", centred, np.linalg.inv(cov), centred), 4.0, rtol=1e-6)
