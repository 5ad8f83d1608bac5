"""Pictures: they are drawn for every kind of run, show what they say, and the animation moves."""

from __future__ import annotations

import io
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import sublevel as sl
from sublevel import plots
from sublevel.plots import animation, style
from sublevel.plots import run as run_plots
from sublevel.plots.animation import Plane

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")
import matplotlib.figure  # noqa: E402

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


def panels(figure):
    """The axes of a figure by their labels."""
    return {axis.get_label(): axis for axis in figure.axes}


def is_picture(file):
    with Image.open(file) as picture:
        return len(set(picture.convert("L").tobytes())) > 20


@pytest.mark.parametrize("name", RUNS)
def test_every_run_can_be_drawn(name, tmp_path):
    assert list(panels(RUNS[name]().plot(tmp_path / "run.png"))) == [
        "values",
        "mean",
        "axes",
        "deviations",
        "axis ratio",
    ]
    assert is_picture(tmp_path / "run.png")


@pytest.mark.parametrize("name", ["one variable", "many variables", "bounds", "diagonal"])
def test_every_correlation_can_be_drawn(name, tmp_path):
    plots.correlation(RUNS[name](), tmp_path / "correlation.png")
    assert is_picture(tmp_path / "correlation.png")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A run and its panels."""
    result = RUNS["plain"]()
    return result, panels(result.plot(tmp_path_factory.mktemp("plots") / "run.png"))


def curve(axis, label):
    return next(line for line in axis.get_lines() if line.get_label() == label).get_xydata().T


def test_values_step_size_and_axis_ratio_are_shown(drawn):
    result, axes = drawn
    nfev, best = curve(axes["values"], "f")
    np.testing.assert_array_equal(nfev, result.history["nfev"])
    np.testing.assert_array_equal(best, result.history["best"])
    trace = result.history.trace()
    np.testing.assert_array_equal(curve(axes["axes"], "step size σ"), [trace.nfev, trace.sigma])
    np.testing.assert_array_equal(curve(axes["axis ratio"], "axis ratio (right)"), [trace.nfev, trace.axis_ratio])


def test_the_other_panels_show_a_curve_for_each_variable_and_axis(drawn):
    result, axes = drawn
    trace = result.history.trace()
    for name, columns in (("mean", trace.mean), ("axes", trace.axes), ("deviations", trace.deviations)):
        drawn = [line.get_ydata() for line in axes[name].get_lines()]
        np.testing.assert_array_equal(drawn[: columns.shape[1]], columns.T)
    assert [text.get_text() for text in axes["mean"].texts] == [f"x[{i}]" for i in range(5)]


def colours(axis):
    """Colour of each name, and of each curve."""
    return {text.get_text(): text.get_color() for text in axis.texts}, [line.get_color() for line in axis.get_lines()]


def test_a_variable_has_one_colour_even_if_others_are_fixed(tmp_path):
    axes = panels(finished(ellipsoid, 3, bounds=[(0.8, 0.8), (None, None), (None, None)]).plot(tmp_path / "run.png"))
    means, deviations = colours(axes["mean"]), colours(axes["deviations"])
    names = {f"x[{i}]": colour for i, colour in enumerate(means[1])}
    assert means[0] == names
    assert len(set(means[1])) == 3
    assert deviations == ({"x[1]": names["x[1]"], "x[2]": names["x[2]"]}, means[1][1:])


def test_the_mean_of_a_log_scaled_variable_is_shown_by_its_logarithm(tmp_path):
    settings = {"log_scaled": [True, False, True], "bounds": [(None, None), (None, None), (0.8, 0.8)]}
    result = finished(lambda x: (np.log(x[:, 0]) + 9) ** 2 + x[:, 1] ** 2, 3, **settings)
    panel, mean = panels(result.plot(tmp_path / "run.png"))["mean"], result.history.trace().mean
    np.testing.assert_allclose(
        [line.get_ydata() for line in panel.get_lines()], [np.log(mean[:, 0]), mean[:, 1], mean[:, 2]]
    )
    assert [text.get_text() for text in panel.texts] == ["ln x[0]", "x[1]", "x[2]"]


def labels(axis):
    """The labels of an axis of values, by where they stand."""
    axis.figure.canvas.draw()
    return dict(zip(axis.get_yticks().tolist(), [label.get_text() for label in axis.get_yticklabels()], strict=True))


@pytest.mark.parametrize("lowest", [-1000.0, 37.25])
def test_labels_are_values_of_f_where_differences_are_drawn(lowest, tmp_path):
    axis = panels(finished(lambda x: ellipsoid(x) + lowest, 4).plot(tmp_path / "run.png"))["values"]
    found = labels(axis)
    assert min(found.items()) == (pytest.approx(curve(axis, "f")[1].min()), f"{lowest:g}")
    assert len([text for text in found.values() if not text.startswith("+")]) >= 3
    for place, text in found.items():
        if text.startswith("+"):
            assert float(text) == pytest.approx(place)
        else:
            assert float(text) == pytest.approx(lowest + place, abs=0.06 * place + 1e-6 * abs(lowest))
    assert axis.get_ylabel() == "f (+: above the best)"


@pytest.mark.parametrize("name", ["negative values", "restarts", "plain"])
def test_values_are_drawn_without_gaps_where_they_equal_the_best(name, tmp_path):
    result = RUNS[name]()
    axis = panels(result.plot(tmp_path / "run.png"))["values"]
    for line in axis.get_lines():
        is_mark = line.get_color() == style.GRID  # of a restart
        assert is_mark or np.all(line.get_ydata() > 0)
    low, high = axis.get_ylim()
    assert low < np.min(curve(axis, "f")[1]) < high


WIDE_RUNS = {
    "log-scaled": lambda: finished(
        lambda x: ellipsoid(np.log(x)) - 39404.990217, 3, log_scaled=True, names=["infection rate", "r", "cases"]
    ),
    "small values": lambda: finished(lambda x: -1e-100 * np.exp(-ellipsoid(x)) * 1.23456789, 2),
    "many variables": lambda: finished(ellipsoid, 120, method="sep-cma", maxiter=5),
    "two long names": lambda: finished(
        ellipsoid, 2, maxiter=5, names=["amplitude of the first decay", "amplitude of the second decay"]
    ),
    "long names": lambda: finished(
        ellipsoid, 15, maxiter=5, names=[f"the quantity of number {i} in its units" for i in range(15)]
    ),
}


@pytest.mark.parametrize("name", WIDE_RUNS)
def test_no_letter_of_a_small_panel_is_cut_off(name, monkeypatch):
    """A panel of a report and the correlations: all texts are within the picture."""
    figures, save = [], matplotlib.figure.Figure.savefig
    monkeypatch.setattr(
        matplotlib.figure.Figure, "savefig", lambda figure, *a, **k: (figures.append(figure), save(figure, *a, **k))
    )
    run = WIDE_RUNS[name]()
    run_plots.panel_images(run)
    plots.correlation(run, io.BytesIO(), file_format="svg")
    assert len(figures) == 5
    for figure in figures:
        box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
        assert min(box.x0, box.y0, width - box.x1, height - box.y1) > -0.01, (box, width, height)


def test_a_long_run_is_thinned_and_keeps_its_extremes():
    values = np.random.default_rng(1).standard_normal(50_000)
    rows = run_plots._thin_rows(values)
    assert rows.size <= run_plots.MOST_ROWS + 2
    assert {0, 49_999, values.argmin(), values.argmax()} <= {*rows.tolist()}
    assert np.array_equal(run_plots._thin_rows(values[:100]), np.arange(100))


def test_many_variables_are_drawn_as_quantiles(tmp_path):
    d = 100_000
    opt = sl.Optimizer(np.zeros(d), 0.3, method="sep-cma", rng=1)
    history = sl.History(opt)
    for _ in range(3):
        opt.tell(opt.ask(), np.arange(opt.popsize, dtype=float))
        history.record(opt)
    axes = panels(plots.convergence(history, tmp_path / "run.png"))
    assert [text.get_text() for text in axes["mean"].texts] == list(run_plots.QUANTILES)
    assert len(axes["deviations"].get_lines()) == len(run_plots.QUANTILES)
    assert f"quantiles of {d}" in axes["deviations"].get_title("left")
    with pytest.raises(ValueError, match=f"at most 1000 variables.*{d}"):
        plots.correlation(history, tmp_path / "c.png")
    plots.animate(None, history, tmp_path / "run.gif", frames=2)


def test_names_are_shown_as_they_are_and_cut(tmp_path):
    class Named(sl.History):
        names = ["$\\nonsense{$", "a" * 100]  # noqa: RUF012

    opt = sl.Optimizer(np.zeros(2), 0.3, rng=1)
    history = Named(opt)
    opt.tell(opt.ask(), np.arange(opt.popsize, dtype=float))
    history.record(opt)
    axes = panels(plots.convergence(history, tmp_path / "run.png"))
    assert [text.get_text() for text in axes["mean"].texts] == ["$\\nonsense{$", "a" * 23 + "…"]
    plots.correlation(history, tmp_path / "c.png")


def test_curves_of_different_runs_are_not_joined(tmp_path):
    result = finished(rastrigin, 3, restarts=2, maxfevals=20_000)
    axes = panels(result.plot(tmp_path / "run.png"))
    assert result.restarts == 2
    assert len([line for line in axes["mean"].get_lines() if len(line.get_xdata()) > 2]) == 3 * 3


def test_correlations_are_those_of_the_last_distribution(tmp_path):
    result = finished(lambda x: (x[:, 0] + x[:, 1]) ** 2 + 0.01 * (x[:, 0] - x[:, 1]) ** 2, 2)
    cells = plots.correlation(result, tmp_path / "c.png").axes[0].collections[0].get_array().reshape(2, 2)
    deviations = np.sqrt(np.diag(result.cov))
    np.testing.assert_allclose(cells, result.cov / np.outer(deviations, deviations))
    assert cells[0, 1] < -0.9


def test_a_history_alone_will_do(tmp_path):
    opt = sl.Optimizer(np.ones(3), 0.5, rng=1)
    history = sl.History(opt)
    for _ in range(20):
        X = opt.ask()
        opt.tell(X, ellipsoid(X))
        history.record(opt)
    plots.convergence(history, tmp_path / "run.png")
    assert is_picture(tmp_path / "run.png")


def test_without_a_file_the_figure_is_pyplots():
    from matplotlib import pyplot

    figure = finished(ellipsoid, 2, maxiter=5).plot()
    assert isinstance(figure, matplotlib.figure.Figure)
    assert pyplot.gcf() is figure
    pyplot.close("all")


def test_the_first_figure_leaves_the_settings_of_the_backend_alone():
    """A notebook's backend switches `interactive` on when it is loaded, which the first figure does."""
    code = """
import matplotlib as mpl, sublevel as sl
result = sl.minimize(lambda x: x @ x, [1.0, 2.0], 0.5, rng=1, maxiter=5)
mpl.use("module://loud")
result.plot()
print(mpl.rcParams["lines.linewidth"])
"""
    backend = (
        "import matplotlib as mpl\nfrom matplotlib.backends.backend_agg import "
        "*\nmpl.rcParams['lines.linewidth'] = 9.0\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "loud.py").write_text(backend)
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=folder,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": folder},
        )
    assert done.stdout == "9.0\n", done.stderr


def test_a_picture_for_a_file_leaves_pyplot_alone(tmp_path):
    from matplotlib import pyplot

    finished(ellipsoid, 2, maxiter=5).plot(tmp_path / "run.svg")
    assert pyplot.get_fignums() == []


def test_labels_stay_apart_and_near_their_curves():
    places = run_plots._separate(np.array([0.5, 0.5, 0.5, 0.1, 0.99]), 0.05)
    assert np.diff(np.sort(places)).min() > 0.05 - 1e-12
    np.testing.assert_allclose(places[:3].mean(), 0.5)
    np.testing.assert_allclose(places[3:], [0.1, 0.99])
    assert run_plots._separate(np.full(4, 0.0), 0.1).min() == 0.0
    assert run_plots._separate(np.full(4, 1.0), 0.1).max() == 1.0


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

    result = sl.minimize(
        lambda x: float(ellipsoid(x)),
        [1.0, 1.0, 2.0],
        0.3,
        bounds=[(0.5, 1.5), (None, None), (2, 2)],
        rng=1,
        maxiter=30,
    )
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
    assert len(asked) > 4761
    assert min(asked) > 0
    assert bounds is None or max(asked) <= 2


def test_an_animation_evaluates_each_view_once(tmp_path):
    calls = []

    def fun(x):
        calls.append(len(x))
        return ellipsoid(x)

    result = finished(ellipsoid, 2, maxfevals=300)
    animation = plots.animate(fun, result, tmp_path / "run.gif", vectorized=True, frames=3)
    assert calls == [18**2, 69**2 - 18**2, *[69**2] * 3]  # the coarse grid says how long an evaluation takes
    animation.save(tmp_path / "again.gif", writer="pillow")
    assert sum(calls) == 4 * 69**2


def test_a_grid_of_many_variables_is_evaluated_in_parts(tmp_path, monkeypatch):
    sizes, run = [], finished(ellipsoid, 5, maxiter=5)
    whole = lambda x: sizes.append(x.size) or ellipsoid(x)  # noqa: E731
    view = np.linspace(-1.0, 1.0, animation.FINEST), np.linspace(0.0, 1.0, animation.FINEST)
    at_once = Plane(run.history, whole, run.x, (0, 1), True, views=1).values(*view)
    assert max(sizes) > 1000
    sizes.clear()
    monkeypatch.setattr(animation, "MOST_NUMBERS", 1000)
    np.testing.assert_array_equal(Plane(run.history, whole, run.x, (0, 1), True, views=1).values(*view), at_once)
    assert max(sizes) <= 1000


@pytest.mark.parametrize(("seconds", "across"), [(1e-5, 69), (1e-3, 35), (1e-1, 18)])
def test_an_animation_of_a_slow_function_evaluates_fewer_points(seconds, across):
    clock, asked = [0.0], []

    def fun(x):
        clock[0] += seconds
        asked.append(x)
        return ellipsoid(x)

    result = finished(ellipsoid, 2, maxfevals=300)
    plane = Plane(result.history, fun, result.x, (0, 1), False, views=5, clock=lambda: clock[0])
    grid = np.linspace(-1, 1, 69)
    values = plane.values(grid, grid)
    assert values.shape == (across, across)
    assert len(asked) == across**2
    np.testing.assert_array_equal(
        values[0], ellipsoid(np.stack([grid[:: 68 // (across - 1)], np.full(across, -1.0)], axis=1))
    )


@pytest.mark.parametrize("bounds", [None, [(0.5, 1.0), (None, None)]])
def test_coarse_contour_lines_are_those_of_the_function(bounds):
    """Interpolated ranks lie near the ranks on the fine grid; at a bound, where the grid has gaps, the coarse grid is
    drawn.
    """
    result = finished(ellipsoid, 2, maxfevals=300, bounds=bounds)
    axis = matplotlib.figure.Figure().subplots()
    plane = Plane(result.history, lambda x: ellipsoid(x), result.x, (0, 1), True, views=5)
    plane.stride = 4
    plane.show_contours(axis, np.array([[-1.0, 1.0], [-1.0, 1.0]]))
    assert len(axis.collections) == 2
    grid = np.linspace(-1, 1, 69)
    fine = np.exp(np.sum([1.0, 3.0] * np.square(np.stack(np.meshgrid(grid, grid), axis=-1)), axis=-1))
    refined = animation._refine(grid[::4], grid[::4], animation._ranks(fine[::4, ::4]), grid, grid)
    errors = animation._ranks(refined) - animation._ranks(fine)
    assert np.sqrt(np.mean(np.square(errors))) < 0.012  # half the least distance of two contour lines


def test_an_animation_without_a_function_evaluates_nothing(tmp_path):
    plots.animate(None, finished(ellipsoid, 2, maxfevals=300), tmp_path / "run.gif", frames=3)
    assert is_picture(tmp_path / "run.gif")


def test_an_animation_needs_two_variables_that_are_searched():
    result = sl.minimize(ellipsoid, [1.0, 1.0, 2.0], 0.3, bounds=[(0.5, 1.5), (None, None), (2, 2)], rng=1, maxiter=3)
    for variables in ((0, 0), (0, 2), (0, 5)):
        with pytest.raises(ValueError, match=r"`variables`.*\[0, 1\]"):
            plots.animate(ellipsoid, result, variables=variables)


def test_the_ellipse_is_that_of_the_distribution():
    result = finished(ellipsoid, 4, maxfevals=400)
    plane = Plane(result.history, ellipsoid, result.x, (3, 1), True, views=2)
    outline = plane.ellipse(-1, 2.0)
    cov = result.cov[np.ix_([3, 1], [3, 1])]
    centred = outline - result.mean[[3, 1]][:, None]
    np.testing.assert_allclose(np.einsum("in,ij,jn->n", centred, np.linalg.inv(cov), centred), 4.0, rtol=1e-6)
