"""Named parameters and integers on the command line."""

from __future__ import annotations

import html
import json
import re
import sys

import pytest

import sublevel as sl
from sublevel.cli.main import main
from sublevel.cli.template import argument_text
from sublevel.store.fingerprint import fingerprint

TOML = """
seed = 3
rate = {type = "real", low = 1e-6, high = 1, log = true}
depth = {type = "integer", low = 1, high = 12}
kernel = {type = "choice", values = ["rbf", "poly", "lin ear"]}
fast = {type = "choice", values = [true, false], start = false}
"""
SPACE = sl.Space(
    seed=3,
    rate=sl.Real(1e-6, 1, log=True),
    depth=sl.Integer(1, 12),
    kernel=sl.Choice("rbf", "poly", "lin ear"),
    fast=sl.Choice(True, False, start=False),
)
MODULE = """
import math

def cost(p):
    return (math.log(p["rate"]) + 5) ** 2 + abs(p["depth"] - 4) + (p["kernel"] != "poly") + p["seed"] + p["fast"]

def of_vector(x):
    return (x[0] - 1) ** 2 + abs(x[1] - 4.3)
"""
PROGRAM = """#!{python}
import json, sys
line = sys.stdin.read()
with open({log!r}, "a") as log:
    log.write(json.dumps([sys.argv[1:], json.loads(line)]) + "\\n")
print(len(line))
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The working directory, with a module, a program that logs what it gets, and a space in both formats."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "space.toml").write_text(TOML)
    (tmp_path / "space.json").write_text(json.dumps(SPACE.describe()))
    (tmp_path / "costs.py").write_text(MODULE)
    program = tmp_path / "program"
    program.write_text(PROGRAM.format(python=sys.executable, log=str(tmp_path / "log")))
    program.chmod(0o755)
    return tmp_path


def run(capsys, *arguments):
    """Exit status, what was printed, and what was complained of."""
    try:
        status = main([*map(str, arguments)])
    except SystemExit as end:
        status = end.code
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def cost(p):
    """The function of the module."""
    names: dict[str, object] = {}
    exec(MODULE, names)
    return names["cost"](p)


RUN = ["minimize", "costs.py:cost", "--seed", "1", "--maxfevals", "150"]


@pytest.mark.parametrize("end", ["toml", "json"])
def test_a_function_of_a_space_is_minimised(here, capsys, end):
    status, out, err = run(capsys, *RUN, "--space", f"space.{end}")
    expected = sl.minimize(cost, SPACE, rng=1, maxfevals=150)
    assert (status, err) == (0, "")
    assert f"params {', '.join(f'{name}={value!r}' for name, value in expected.params.items())}\n" in out
    assert re.search(r"^std    rate=\S+, depth=\S+ \(search", out, re.MULTILINE)


def test_json_has_the_parameters(here, capsys):
    _, out, _ = run(capsys, *RUN, "--space", "space.toml", "--json")
    assert json.loads(out)["params"] == sl.minimize(cost, SPACE, rng=1, maxfevals=150).params


def test_sigma0_may_be_given_with_a_space(here, capsys):
    _, out, _ = run(capsys, *RUN, "--space", "space.toml", "--sigma0", "0.1", "--json")
    assert json.loads(out)["params"] == sl.minimize(cost, SPACE, 0.1, rng=1, maxfevals=150).params


def logged(here):
    return [json.loads(line) for line in (here / "log").read_text().splitlines()]


def test_a_program_gets_decoded_values_by_name_and_in_order(here, capsys):
    words = ["--command", here / "program", "--kernel={kernel}", "{depth}", "{}", "{0}", "{{rate}}"]
    status, _, err = run(capsys, "minimize", "--space", "space.toml", "--maxfevals", "20", "--store", "run.db", *words)
    assert (status, err) == (0, "")
    assert run(capsys, "resume", "run.db", "--maxfevals", "40", *words)[0] == 0
    found = sl.load(here / "run.db")
    for (arguments, params), x in zip(logged(here)[:9], found.points, strict=False):
        values = [argument_text(value) for value in params.values()]
        assert params == SPACE.decode(x)
        assert arguments == [f"--kernel={params['kernel']}", str(params["depth"]), *values, "3", "{rate}"]
    assert {params["fast"] for _, params in logged(here)} == {True, False}
    assert len(logged(here)) == found.values.size + 1  # one point was evaluated again


def test_an_unknown_placeholder_names_the_parameters(here, capsys):
    words = ["--command", here / "program", "{width}"]
    status, _, err = run(capsys, "minimize", "--space", "space.toml", *words)
    assert status == 2
    assert "available: {seed}, {rate}, {depth}, {kernel}, {fast}" in err


def test_integers_of_a_vector(here, capsys):
    words = ["--x0", "0,0", "--sigma0", "1", "--integrality", "0,1", "--seed", "1", "--maxfevals", "60"]
    status, out, _ = run(capsys, "minimize", "costs.py:of_vector", *words, "--json")
    assert (status, json.loads(out)["x"][1]) == (0, 4.0)
    named = ["--names", "a,n", "--store", "run.db", "--command", here / "program", "{n}", "{a}"]
    assert run(capsys, "minimize", *words[:-1], 12, *named)[0] == 0
    assert run(capsys, "resume", "run.db", "--maxfevals", "20", *named[-4:])[0] == 0
    for arguments, (a, n) in logged(here):
        assert (arguments, type(n)) == ([str(n), repr(a)], int)


# Files


def test_stored_spaces_are_resumed_and_printed_by_name(here, capsys):
    assert run(capsys, *RUN, "--space", "space.toml", "--store", "run.db")[0] == 0
    sl.minimize(cost, SPACE, rng=1, maxfevals=200, store=here / "whole.db")
    assert run(capsys, "resume", "run.db", "costs.py:cost", "--maxfevals", "200")[0] == 0
    assert fingerprint(here / "run.db") == fingerprint(here / "whole.db")
    params = ", ".join(f"{name}={value!r}" for name, value in sl.load("run.db").params.items())
    assert f"params   {params}\n" in run(capsys, "show", "run.db")[1]
    assert f" at {params}, std" in run(capsys, "watch", "run.db")[1]
    assert run(capsys, "runs")[1].count(f" at {params}, std") == 2
    assert json.loads(run(capsys, "show", "run.db", "--json")[1])["params"] == sl.load("run.db").params
    assert run(capsys, "export", "run.db", "run.csv")[0] == 0
    assert (here / "run.csv").read_text().startswith("run,iteration,index,value,rate,depth,kernel,fast\n")


def test_a_report_has_values_by_name(here, capsys):
    run(capsys, *RUN, "--space", "space.toml", "--store", "run.db")
    assert run(capsys, "report", "run.db")[0] == 0
    page = (here / "run.html").read_text(encoding="utf-8")
    table = page[page.index('id="variables"') :]
    rows = re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td></tr>", table)
    cells = {name: tuple(map(html.unescape, texts)) for name, *texts in rows}
    params = sl.load("run.db").params
    assert cells["kernel"][:2] == (params["kernel"], params["kernel"])
    assert cells["kernel"][2].startswith("probability")
    assert cells["depth"][:2] == (str(params["depth"]),) * 2
    assert cells["fast"][0] == "False"


def test_a_space_that_could_not_be_stored_is_resumed_from_python(here, capsys):
    space = sl.Space(f=sl.Choice(abs, len), x=sl.Real(0, 1))
    sl.minimize(lambda p: p["x"], space, rng=1, maxfevals=20, store="run.db")
    assert run(capsys, "show", "run.db")[0] == 0
    status, _, err = run(capsys, "resume", "run.db", "costs.py:cost")
    assert (status, "resume it from Python: sublevel.resume('run.db', fun, space=space)" in err) == (2, True)


# What goes wrong

WRONG = {
    "--x0 must not be given with --space": ["--x0", "1,2"],
    "--bounds must not be given with --space": ["--bounds", "0:1"],
    "--log-scaled must not be given with --space": ["--log-scaled", "all"],
    "--names must not be given with --space": ["--names", "a,b"],
    "--integrality must not be given with --space": ["--integrality", "1"],
    "must end with .json or .toml": ["--space", "space.yaml"],
    "cannot read none.toml: No such file": ["--space", "none.toml"],
    "binary methods do not search a Space": ["--method", "pbil"],
}
FILES = {
    "is not valid JSON": ("a.json", "{"),
    "is not valid TOML": ("a.toml", "a = "),
    "must contain an object whose keys": ("a.json", "[1]"),
    "the name 'a' occurs twice": ("a.json", '{"a": {"type": "real", "low": 0, "high": 1}, "a": 2}'),
    "needs low ≤ high": ("a.json", '{"a": {"type": "real", "low": 2, "high": 1}}'),
    "`type` of parameter 'a' must be real, integer, choice or constant": ("a.json", '{"a": {"low": 2}}'),
    "parameter 'a' needs 'values'": ("a.toml", 'a = {type = "choice"}'),
    "Space needs at least one parameter that can vary": ("a.toml", "a = 1"),
    "values must be numbers, strings": ("a.toml", 'a = {type = "choice", values = [2020-01-01, 2021-01-01]}'),
}


@pytest.mark.parametrize("message", WRONG)
def test_options_that_do_not_fit_are_refused(here, capsys, message):
    (here / "space.yaml").write_text("")
    status, _, err = run(capsys, *RUN, "--space", "space.toml", *WRONG[message])
    assert status == 2
    assert message in err


@pytest.mark.parametrize("message", FILES)
def test_files_that_describe_no_space_are_refused(here, capsys, message):
    name, text = FILES[message]
    (here / name).write_text(text, encoding="utf-8")
    status, _, err = run(capsys, *RUN, "--space", name)
    assert status == 2
    assert message in err


@pytest.mark.parametrize("kinds", ["0,2", "a", "0,1,0"])
def test_integrality_that_does_not_fit_is_refused(here, capsys, kinds):
    words = ["--x0", "0,0", "--sigma0", "1", "--integrality", kinds]
    status, _, err = run(capsys, "minimize", "costs.py:of_vector", *words)
    assert status == 2
    assert "0 (real) or 1 (integer)" in err


def test_help_and_completion_know_the_options(capsys):
    assert "--space FILE" in run(capsys, "minimize", "--help")[1]
    for shell in ("bash", "zsh", "fish"):
        script = run(capsys, "completion", shell)[1]
        assert "space" in script
        assert "integrality" in script
