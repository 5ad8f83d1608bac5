"""Error bars in the file of a run: what is read is what was computed, and every view of the file shows it."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import sqlite3
from dataclasses import fields

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import sublevel as sl
from sublevel.cli.main import main
from sublevel.cli.run_status import read_status
from sublevel.dashboard.runs import Runs
from sublevel.hessian.curvature import add_curvature
from sublevel.store.file import with_checksum
from sublevel.store.fingerprint import fingerprint
from sublevel.store.lock import Lock

NAMES = ["rate", "depth", "floor"]


def squares(x):
    """A sum of 20 squared residuals, which bends the third variable to its bound 0."""
    t = np.linspace(0, 1, 20)
    return float(np.sum((x[0] * np.exp(-x[1] * t) + x[2] - np.exp(-2 * t) + 0.02 * np.cos(40 * t)) ** 2) + x[2])


KIND = {"kind": "least_squares", "n_residuals": 20}
FIT = {"rng": 1, "bounds": [(None, None), (None, None), (0, 1)], "names": NAMES, "log_scaled": [False, True, False]}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A run with error bars: its file and its result."""
    file = tmp_path_factory.mktemp("curvature") / "run.db"
    return file, sl.minimize(squares, [0.5, 1, 0.5], 0.3, **FIT, **KIND, curvature=True, store=file)


@pytest.fixture
def copy(stored, tmp_path):
    """A copy of that file."""
    return shutil.copyfile(stored[0], tmp_path / "copy.db")


def assert_same(one, other):
    """Assert that two curvatures are equal, except for their objectives."""
    for field in fields(one):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if field.name == "lower_point" and mine is not None:
            assert_array_equal(mine.x, theirs.x)
            mine, theirs = mine.fun, theirs.fun
        if field.name != "calls":
            np.testing.assert_equal(theirs, mine, err_msg=field.name)


def test_what_is_read_is_what_was_computed(stored):
    file, result = stored
    loaded = sl.load(file).result
    assert not result.curvature.free[2]
    assert_same(result.curvature, loaded.curvature)
    assert_array_equal(loaded.hess_inv, result.hess_inv)
    assert loaded.nfev == result.nfev
    assert loaded.curvature.summary() == result.curvature.summary()
    profiles = [found.profile_intervals(0.9, squares).intervals for found in (result.curvature, loaded.curvature)]
    assert_array_equal(*profiles)


def flat(x):
    return (x[0] + x[1] - 1) ** 2


def sloped(x):
    return x[0] ** 2 - 0.5 * np.tanh(x[1]) + 1e-3 * x[1] ** 2


SPACE = sl.Space(rate=sl.Real(0.1, 10, log=True), count=sl.Integer(1, 5), shape=sl.Choice("round", "long"))


def mixed(p):
    return (np.log(p["rate"]) - 0.3) ** 2 + (p["count"] - 3) ** 2 + (p["shape"] == "long")


@pytest.mark.parametrize(
    ("fun", "x0", "settings"),
    [
        (flat, ([0, 0], 0.5), {"kind": "nll"}),
        (sloped, ([0.5, -3.0], 0.5), {"maxfevals": 40}),
        (mixed, (SPACE,), {"kind": "nll"}),
        (squares, ([0.5, 1, 0.5], 0.3), {**KIND, "bounds": (0.1, None)}),
    ],
    ids=["flat", "unconverged", "mixed", "without names"],
)
def test_curvatures_of_all_kinds_are_stored(fun, x0, settings, tmp_path):
    result = sl.minimize(fun, *x0, rng=1, curvature=True, store=tmp_path / "run.db", **settings)
    assert_same(result.curvature, sl.load(tmp_path / "run.db").result.curvature)


def test_a_run_without_error_bars_has_none(tmp_path):
    file = tmp_path / "run.db"
    result = sl.minimize(squares, [0.5, 1, 0.5], 0.3, **FIT, store=file)
    loaded = sl.load(file).result
    assert loaded.curvature is None
    assert loaded.nfev == result.nfev
    assert "error bars" not in printed(["show", file])


def test_error_bars_are_those_of_the_last_result(tmp_path):
    """A run that goes on has another minimum."""
    file = tmp_path / "run.db"
    sl.minimize(squares, [0.5, 1, 0.5], 0.3, **FIT, **KIND, curvature=True, maxfevals=300, store=file)
    sl.resume(file, squares, maxfevals=300)
    assert sl.load(file).result.curvature is not None
    sl.resume(file, squares, maxfevals=100_000)
    assert sl.load(file).result.curvature is None


def test_error_bars_leave_the_run_as_it_is(tmp_path):
    plain, other = tmp_path / "plain.db", tmp_path / "other.db"
    sl.minimize(squares, [0.5, 1, 0.5], 0.3, **FIT, store=plain)
    sl.minimize(squares, [0.5, 1, 0.5], 0.3, **FIT, **KIND, curvature=True, store=other)
    assert fingerprint(plain) == fingerprint(other)


def printed(arguments):
    """What a command prints."""
    with contextlib.redirect_stdout(io.StringIO()) as text:
        assert main(list(map(str, arguments))) == 0
    return text.getvalue()


# --- the views
# -----------------------------------------------------------------------------------------------------------------

PROGRAM = """
import numpy as np
t = np.linspace(0, 1, 20)
def squares(x):
    return float(np.sum((x[0] * np.exp(-x[1] * t) - np.exp(-2 * t) + 0.02 * np.cos(40 * t)) ** 2))
"""


@pytest.fixture(scope="module")
def resumed(tmp_path_factory):
    """A run of the command line whose error bars were asked for by `resume`."""
    folder = tmp_path_factory.mktemp("resumed")
    (folder / "fit.py").write_text(PROGRAM, encoding="utf-8")
    fun, file = f"{folder / 'fit.py'}:squares", folder / "run.db"
    printed(
        ["minimize", fun, "--x0", "0.5,1", "--sigma0", "0.3", "--names", "rate,depth", "--seed", 1, "--store", file]
    )
    printed(["report", file, "--out", folder / "before.html"])
    text = printed(["resume", file, fun, "--error-bars", 20])
    printed(["report", file, "--out", folder / "after.html"])
    return folder, text


def test_show_has_the_error_bars_of_resume(resumed):
    folder, text = resumed
    _, _, summary = text.partition("\n\n")
    assert "95 % interval" in summary
    shown = printed(["show", folder / "run.db"])
    assert summary.strip() in shown
    assert re.search(r"spent +(\d+) evaluations", shown)[1] == re.search(r"spent +(\d+) evaluations", text)[1]
    bars = json.loads(printed(["show", folder / "run.db", "--json"]))["error_bars"]
    loaded = sl.load(folder / "run.db").result.curvature
    assert bars["stderr"] == loaded.stderr.tolist()
    assert bars["kind"] == "least_squares"
    assert bars["at_bound"] == [[False, False]] * 2


def test_the_report_has_them_and_no_longer_says_how_to_get_them(resumed):
    folder, _ = resumed
    before, after = ((folder / name).read_text(encoding="utf-8") for name in ("before.html", "after.html"))
    assert "<code>--error-bars</code>" in before
    assert "<h2>Error bars</h2>" not in before
    assert "<code>--error-bars</code>" not in after
    table = re.search('<table id="error-bars">(.*?)</table>', after, re.S)[1]
    loaded = sl.load(folder / "run.db").result.curvature
    for name, error in zip(["rate", "depth"], loaded.stderr, strict=True):
        assert re.search(f"<td>{name}</td><td>[^<]*</td><td>{error:.3g}</td>", table)
    evaluations = re.compile(r"<td>evaluations</td><td>(.*?)</td>")
    assert evaluations.search(before)[1] == evaluations.search(after)[1]


def test_the_dashboard_has_them(resumed, stored):
    folder, _ = resumed
    runs = Runs([folder / "run.db"])
    (entry,) = runs.entries
    bars = runs.detail(entry, "", "")["error_bars"]
    loaded = sl.load(folder / "run.db").result.curvature
    assert bars["header"] == ["variable", "value", "± error", "95 % interval"]
    assert [row[0] for row in bars["rows"]] == ["rate", "depth"]
    assert [row[2] for row in bars["rows"]] == [f"{error:.3g}" for error in loaded.stderr]
    assert bars["meaning"].startswith("f is a sum of squares")
    runs = Runs([stored[0]])
    assert any("at_bound" in problem for problem in runs.detail(runs.entries[0], "", "")["error_bars"]["problems"])


def test_the_dashboard_notices_them_when_they_come(tmp_path):
    file = tmp_path / "run.db"
    result = sl.minimize(squares, [0.5, 1, 0.5], 0.3, **FIT, store=file)
    runs = Runs([file])
    (entry,) = runs.entries
    before = runs.detail(entry, "", "")
    while (again := runs.detail(entry, "", before["version"])).get("version") != before["version"]:
        before = again
    assert before["error_bars"] is None
    add_curvature(result, squares, file, **KIND)
    assert runs.detail(entry, "", before["version"])["error_bars"] is not None


# --- files that are not what they should be
# -----------------------------------------------------------------------------------------------------------------


def forge(path, part="curvature", **changes):
    """Change the facts or the data of a part, with the right checksum."""
    connection = sqlite3.connect(path)
    with connection:
        name, facts, layout, data, origin, _ = connection.execute(
            "SELECT * FROM parts WHERE name = ?", (part,)
        ).fetchone()
        facts = json.dumps(json.loads(facts) | changes.get("facts", {}))
        data = changes.get("data", lambda same: same)(data)
        row = with_checksum(name, facts, layout, data, origin)
        connection.execute("INSERT OR REPLACE INTO parts VALUES (?, ?, ?, ?, ?, ?)", row)
    connection.close()


def shortened(data):
    return data[:-8]


def lengthened(data):
    return data + bytes(8)


@pytest.mark.parametrize(
    "changes",
    [
        {"facts": {"kind": "likelihood"}},
        {"facts": {"kind": None}},
        {"facts": {"n_residuals": 2}},
        {"facts": {"n_residuals": -20}},
        {"facts": {"n_residuals": True}},
        {"facts": {"directions": 3}},
        {"facts": {"directions": 10**9}},
        {"facts": {"nfev": "many"}},
        {"facts": {"run_nfev": None}},
        {"facts": {"dof": 1.5}},
        {"facts": {"problems": 7}},
        {"facts": {"problems": [["name", "sentence"]]}},
        {"facts": {"problems": [["name", 3, {}]]}},
        {"facts": {"problems": [["name", "sentence", {"number": "one"}]]}},
        {"data": shortened},
        {"data": lengthened},
    ],
    ids=lambda changes: str({name: getattr(change, "__name__", change) for name, change in changes.items()}),
)
def test_a_forged_curvature_is_refused(copy, changes):
    forge(copy, **changes)
    with pytest.raises(sl.StoreError, match="damaged or forged"):
        sl.load(copy)


@pytest.mark.parametrize("variable", [0, 2], ids=["rate", "shape"])
@pytest.mark.parametrize("number", [-1.0, 99.5, np.nan, np.inf])
def test_a_forged_minimum_outside_the_space_is_refused(number, variable, tmp_path):
    sl.minimize(mixed, SPACE, rng=1, curvature=True, maxfevals=300, store=tmp_path / "run.db")

    def with_minimum(data):
        numbers = np.frombuffer(data).copy()
        numbers[variable] = number  # the minimum comes first
        return numbers.tobytes()

    forge(tmp_path / "run.db", data=with_minimum)
    with pytest.raises(sl.StoreError, match="damaged or forged"):
        sl.load(tmp_path / "run.db")


@pytest.mark.parametrize("part", ["checkpoint", "reevaluations"])
def test_a_forged_answer_outside_the_space_is_refused(part, tmp_path):
    file = tmp_path / "run.db"
    answer = sl.minimize(mixed, SPACE, rng=1, noise=True, maxfevals=300, store=file).x.tobytes()
    forged = answer[:-8] + np.array([99.0]).tobytes()  # a choice is the last variable
    before = fingerprint(file)
    forge(file, part, data=lambda data: data.replace(answer, forged))
    assert fingerprint(file) != before
    for read in (sl.load, read_status):
        with pytest.raises(sl.StoreError, match="damaged or forged"):
            read(file)


def test_a_forged_sentence_cannot_control_a_terminal_or_a_page(copy, tmp_path):
    forge(copy, facts={"problems": [["name", "\x1b[31m<script>red</script>", {}]]})
    assert "\x1b" not in printed(["show", copy])
    printed(["report", copy, "--out", tmp_path / "report.html"])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "\x1b" not in page
    assert "<script" not in page


def test_a_file_that_is_in_use_keeps_the_result(tmp_path):
    """The error bars cannot be stored, and the result is not lost."""
    file = tmp_path / "run.db"
    result = sl.minimize(squares, [0.5, 1, 0.5], 0.3, **FIT, store=file)
    with contextlib.closing(Lock(file)), pytest.raises(sl.StoreError, match="in use") as raised:
        add_curvature(result, squares, file, **KIND)
    assert raised.value.sublevel_result.curvature is not None
