"""How objects show themselves: short texts, HTML that is escaped, tables, JSON and log messages."""

from __future__ import annotations

import json
import logging
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import sublevel as sl
from sublevel.run.data_frames import structured

NASTY = "<script>alert(1)</script>&"


def bowl(x):
    return float(np.sum((np.asarray(x) - 1.0) ** 2 * [1.0, 10.0]))


@pytest.fixture(scope="module")
def result():
    return sl.minimize(bowl, [0.0, 0.0], 0.5, rng=1, names=[NASTY, "rate"], curvature=True)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    file = tmp_path_factory.mktemp("views") / "run.db"
    sl.minimize(bowl, [0.0, 0.0], 0.5, rng=1, maxiter=12, restarts=2, names=["a", "value"], store=file)
    return sl.load(file)


def large(method):
    """A run with many variables."""
    return sl.minimize(
        lambda X: np.sum(X**2, axis=1), np.ones(100_000), 0.3, method=method, maxiter=2, rng=1, vectorized=True
    )


def public_objects(result, stored):
    gaussian = [sl.Optimizer(np.ones(3), 0.5, method=method).theta for method in ("cma", "sep-cma", "iso-cma")]
    bits = sl.Optimizer(np.full(3, 0.5), None, method="pbil", popsize=20)
    shape = sl.shape_from_ranks(
        lambda X: np.sum(X**2, axis=1), sl.minimize(bowl, [0.0, 0.0], 0.5, rng=1), vectorized=True, rng=1
    )
    return {
        "Result": result,
        "Curvature": result.curvature,
        "History": result.history,
        "Optimizer": bits,
        "StoredRun": stored,
        "RankShape": shape,
        "Profile": result.curvature.profile(bowl),
        **{type(theta).__name__: theta for theta in [*gaussian, bits.theta]},
    }


def test_every_public_object_has_a_short_text(result, stored):
    for name, thing in public_objects(result, stored).items():
        text = repr(thing)
        assert text.startswith(name)
        assert len(text.splitlines()) <= 20, name
        assert len(text) < 2500, name
        assert "array(" not in text, name
        assert " object at 0x" not in text, name


def test_the_text_of_a_result_says_what_was_found(result):
    lines = dict(line.split(maxsplit=1) for line in repr(result).splitlines()[1:])
    assert repr(result).startswith("Result: success\n")
    assert float(lines["fun"]) == pytest.approx(result.fun)
    assert lines["message"] == result.message
    assert f"nfev {result.nfev}, nit {result.nit}" in lines["spent"]
    assert "history" in lines["also"]


def test_a_result_without_some_entries_is_shown(result):
    part = result.copy()
    del part["failures"], part["std"]
    assert repr(part).startswith("Result with the entries x, fun, ")
    assert part._repr_html_()
    assert repr(sl.Result()) == "Result with the entries "


def test_the_text_of_a_curvature_has_its_error_bars(result):
    found = sl.curvature(bowl, result, kind="nll", names=["amplitude", "rate"])
    row = next(line for line in repr(found).splitlines() if line.split()[0] == "rate")
    assert float(row.split()[2]) == pytest.approx(np.sqrt(1 / 20), rel=1e-2)
    assert len(repr(found)) < len(str(found))


class Tags(HTMLParser):
    """Checks that tags are closed, and collects tags and texts."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.texts = [], set(), []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_html_is_well_formed_and_escaped(result, stored):
    things = public_objects(result, stored)
    for name in ("Result", "Curvature", "History", "Optimizer", "StoredRun", "RankShape"):
        page = Tags(things[name]._repr_html_())
        assert page.tags <= {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"}, name
        assert page.texts[0].startswith(name)
    for name in ("Result", "Curvature"):
        assert NASTY in Tags(things[name]._repr_html_()).texts


@pytest.mark.parametrize("method", ["sep-cma", "iso-cma"])
def test_many_variables_are_not_all_shown(method):
    found = large(method)
    for text in (repr(found), found._repr_html_(), repr(found.history), repr(found.distribution)):
        assert len(text) < 8000
    assert "cov" in found._deferred()  # was not computed
    opt = sl.Optimizer(np.ones(100_000), 0.3, method=method)
    assert len(repr(opt)) < 2000
    assert len(opt._repr_html_()) < 4000


def test_a_history_becomes_a_table(stored):
    history = stored.result.history
    frame = history.to_frame()
    assert list(frame.columns) == ["run", "popsize", "nfev", "best", "generation_best", "deviation"]
    assert len(frame) == len(history)
    np.testing.assert_array_equal(frame["best"], history["best"])
    np.testing.assert_array_equal(np.diff(frame["nfev"], prepend=1), frame["popsize"])  # x0 is evaluated, too
    restarted = sl.minimize(lambda x: 0.0, [1.0, 2.0], 0.5, rng=1, restarts=2).history
    runs = restarted.to_frame()["run"]
    assert set(runs) == {0, 1, 2}
    assert [int((runs == i).sum()) for i in range(3)] == [run.rows.stop - run.rows.start for run in restarted.runs]


def test_stored_evaluations_become_a_table(stored):
    frame = stored.to_frame()
    assert list(frame.columns) == ["run", "iteration", "index", "value", "a", "value_"]
    np.testing.assert_array_equal(frame["value"], stored.values)
    np.testing.assert_array_equal(frame[["a", "value_"]], stored.points)


def test_tables_are_structured_arrays_without_pandas(stored, monkeypatch):
    with_pandas = stored.to_frame(), stored.result.history.to_frame()
    monkeypatch.setitem(sys.modules, "pandas", None)  # what makes an import fail
    for table, frame in zip((stored.to_frame(), stored.result.history.to_frame()), with_pandas, strict=True):
        assert isinstance(table, np.ndarray)
        assert list(table.dtype.names) == list(frame.columns)
        for name in table.dtype.names:
            np.testing.assert_array_equal(table[name], frame[name])
            assert table[name].dtype == frame[name].dtype
    assert structured({"a": [1, 2]}, None, ()).dtype.names == ("a",)


def test_a_result_becomes_json(result):
    facts = json.loads(result.to_json(indent=1))
    np.testing.assert_array_equal(facts["x"], result.x)
    np.testing.assert_array_equal(facts["hess_inv"], result.hess_inv)
    assert facts["names"] == [NASTY, "rate"]
    assert facts["reasons"] == result.reasons
    assert facts["success"] is True
    assert facts["nfev"] == result.nfev
    assert "cov" not in facts


def test_json_has_null_for_numbers_that_are_not_finite():
    nothing = sl.minimize(lambda x: np.nan, [1.0, 2.0], 0.5, rng=1, maxiter=3)
    facts = json.loads(nothing.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert facts["fun"] is None
    assert facts["failures"] == {"nan": nothing.nfev}


def test_restarts_and_resumes_are_logged(caplog, tmp_path):
    with caplog.at_level(logging.INFO, logger="sublevel"):
        sl.minimize(lambda x: 0.0, [1.0, 2.0], 0.5, rng=1, restarts=1, store=tmp_path / "run.db")
        sl.resume(tmp_path / "run.db", lambda x: 0.0)
    texts = [record.getMessage() for record in caplog.records]
    assert all(record.name.startswith("sublevel.") for record in caplog.records)
    assert re.match(r"restart 1 with popsize \d+: the previous run ended with \w+ after \d+ evaluations", texts[0])
    assert re.match(r"resume .*run\.db at generation \d+, after \d+ evaluations", texts[-1])


def test_deaths_of_workers_are_logged(caplog):
    with caplog.at_level(logging.WARNING, logger="sublevel"):
        found = sl.minimize(exit_far_away, [1.0, 2.0], 0.5, rng=1, maxiter=1, workers=1, timeout=60)
    assert found.failures
    assert any(re.match(r"worker process \d+ ends: .*exit code 3", record.getMessage()) for record in caplog.records)


def exit_far_away(x):
    import os

    os._exit(3)


def test_nothing_is_printed_unless_a_handler_is_added(capfd):
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("sublevel").handlers)
    sl.minimize(lambda x: 0.0, [1.0, 2.0], 0.5, rng=1, restarts=1)
    assert capfd.readouterr() == ("", "")
