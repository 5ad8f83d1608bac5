"""`sublevel minimize`: functions and programs, what goes wrong with them, and what is said."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import sublevel as sl
from helpers.processes import ends
from sublevel.cli.common import join_negative_values
from sublevel.cli.main import main
from sublevel.cli.program import Program
from sublevel.evaluation.failures import EvaluationFailed, Failure

MODULE = """
CALLS = []

def cost(x):
    CALLS.append(x)
    return float((x[0] - 1) ** 2 + 100 * (x[1] + 2) ** 2)

def raises(x):
    raise ZeroDivisionError("in the objective")

def raises_later(x):
    if len(CALLS) >= 40:
        raise ZeroDivisionError("in the objective")
    return cost(x)

def slow(x):
    import time
    time.sleep(60 if x[0] > 0.2 else 0)
    return cost(x)

def nothing(x):
    return float("nan")

number = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module in a directory of its own, and the directory."""
    name = f"objective_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name, tmp_path


def run(capsys, *arguments):
    """Exit status, what was printed, and what was complained of."""
    try:
        status = main(["minimize", *map(str, arguments)])
    except SystemExit as end:
        status = end.code
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_a_function_is_minimised(module, capsys):
    name, path = module
    status, out, err = run(capsys, f"{name}:cost", "--path", path, "--x0", "-1,2", "--sigma0", "0.5", "--seed", 1)
    assert (status, err) == (0, "")
    lines = {line.split()[0]: line for line in out.splitlines()}
    expected = sl.minimize(lambda x: (x[0] - 1) ** 2 + 100 * (x[1] + 2) ** 2, [-1, 2], 0.5, rng=1)
    assert lines["x"].split()[1] == ",".join(map(repr, expected.x.tolist()))
    assert f"{expected.nfev} evaluations" in lines["spent"]
    assert out.startswith("converged")


def test_sigma0_is_optional_with_finite_bounds(module, capsys):
    name, path = module
    common = [f"{name}:cost", "--path", path, "--x0", "0,-1", "--seed", 3, "--json", "--maxfevals", 60]
    status, out, _ = run(capsys, *common, "--bounds", "-1:2,-3:0")
    assert status == 0
    expected = run(capsys, *common, "--bounds", "-1:2,-3:0", "--sigma0", "1")[1]
    assert json.loads(out)["x"] == json.loads(expected)["x"]
    status, _, err = run(capsys, *common, "--bounds", "-1:2,none:0")
    assert status != 0
    assert "`sigma0` is missing" in err
    assert "Traceback" not in err


def test_all_options_arrive(module, capsys):
    name, path = module
    given = [
        "--bounds",
        "-1:2,none:0",
        "--method",
        "sep-cma",
        "--popsize",
        9,
        "--restarts",
        2,
        "--maxfevals",
        300,
        "--ftarget",
        "1e-3",
    ]
    status, out, _ = run(
        capsys, f"{name}:cost", "--path", path, "--x0", "0,-1", "--sigma0", "0.5,1", "--seed", 3, "--json", *given
    )
    settings = {
        "bounds": [(-1, 2), (None, 0)],
        "method": "sep-cma",
        "popsize": 9,
        "restarts": 2,
        "maxfevals": 300,
        "ftarget": 1e-3,
    }
    expected = sl.minimize(lambda x: (x[0] - 1) ** 2 + 100 * (x[1] + 2) ** 2, [0, -1], [0.5, 1], rng=3, **settings)
    found = json.loads(out)
    assert status == 0
    assert (found["x"], found["nfev"], found["message"]) == (expected.x.tolist(), expected.nfev, expected.message)
    assert found.keys() >= {"fun", "success", "reasons", "mean", "deviations", "diagnosis", "failures", "seconds"}


CONSTRAINED = """
def disk(x):
    return float((x[0] - 1) ** 2 + 100 * (x[1] + 2) ** 2), [x[0] ** 2 + x[1] ** 2 - 1]
"""


def test_options_of_the_start_and_of_constraints_arrive(tmp_path, capsys):
    (tmp_path / "disk.py").write_text(CONSTRAINED)
    words = [tmp_path / "disk.py:disk", "--x0", "-5,5", "--sigma0", 0.3, "--seed", 2, "--maxiter", 5, "--json"]
    words += ["--cov0", "1,0.5;0.5,2", "--no-evaluate-x0", "--constraints", 1]
    words += ["--constraint-tol", 100, "--constraint-handling", "rank-lagrangian"]
    points = []

    def disk(x):
        points.append(x)
        return (x[0] - 1) ** 2 + 100 * (x[1] + 2) ** 2, [x[0] ** 2 + x[1] ** 2 - 1]

    settings = {"cov0": [[1, 0.5], [0.5, 2]], "evaluate_x0": False, "constraints": 1}
    settings |= {"constraint_tol": 100, "constraint_handling": "rank-lagrangian"}
    expected = sl.minimize(disk, [-5, 5], 0.3, rng=2, maxiter=5, **settings)
    status, out, err = run(capsys, *words)
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert not np.array_equal(points[0], [-5, 5])
    assert (found["x"], found["nfev"], found["message"]) == (expected.x.tolist(), expected.nfev, expected.message)
    for name, value in OTHERWISE.items():  # each option matters, so that it must have arrived
        other = sl.minimize(disk, [-5, 5], 0.3, rng=2, maxiter=5, **settings | {name: value})
        assert (other.x.tolist(), other.nfev, other.message) != (found["x"], found["nfev"], found["message"]), name


OTHERWISE = {"cov0": None, "evaluate_x0": None, "constraint_tol": 1e-6, "constraint_handling": None}


def test_one_pair_of_bounds_is_for_all_variables(module, capsys):
    name, path = module
    _, out, _ = run(
        capsys, f"{name}:cost", "--path", path, "--x0", "0.2,0.2", "--sigma0", 0.3, "--bounds", "-0.5:0.5", "--json"
    )
    found = json.loads(out)
    np.testing.assert_allclose(found["x"], [0.5, -0.5])
    assert [finding["name"] for finding in found["diagnosis"]] == ["at_bound"]


def test_findings_are_told(module, capsys):
    name, path = module
    _, out, _ = run(capsys, f"{name}:cost", "--path", path, "--x0", "500,500", "--sigma0", 0.01, "--seed", 1)
    assert "note   small_sigma0: the step size grew" in out


def test_a_plot_is_written(module, capsys, tmp_path):
    name, path = module
    target = tmp_path / "run.png"
    status, out, _ = run(
        capsys, f"{name}:cost", "--path", path, "--x0", "0,0", "--sigma0", 0.3, "--maxfevals", 60, "--plot", target
    )
    assert status == 0
    assert target.stat().st_size > 10_000
    assert out.splitlines()[-1].split() == ["plot", str(target)]


@pytest.mark.parametrize("as_json", [False, True])
def test_what_was_found_before_an_exception_is_kept(module, capsys, as_json):
    name, path = module
    words = [f"{name}:raises_later", "--path", path, "--x0", "0,0", "--sigma0", 0.3, "--seed", 1]
    status, out, err = run(capsys, *words, *(["--json"] if as_json else []))
    assert status == 1
    assert "ZeroDivisionError: in the objective\nsublevel: raised at x = [" in err
    if as_json:
        found = json.loads(out)
        assert found["nfev"] == 40
        assert found["fun"] > 0
        assert found["error"].startswith("ZeroDivisionError: in the objective\nsublevel: raised at x = [")
    else:
        lines = {line.split()[0]: line for line in out.splitlines()}
        assert "40 evaluations" in lines["spent"]
        assert float(lines["fun"].split()[1]) > 0


def test_budgets_may_be_written_as_in_python(module, capsys):
    name, path = module
    words = [f"{name}:cost", "--path", path, "--x0", "0,0", "--sigma0", 0.3, "--seed", 1, "--json"]
    assert json.loads(run(capsys, *words, "--maxfevals", "1e2")[1])["reasons"] == {"maxfevals": 100.0}
    assert json.loads(run(capsys, *words, "--maxiter", "5")[1])["reasons"] == {"maxiter": 5.0}
    assert json.loads(run(capsys, *words, "--maxfevals", "inf", "--maxiter", "5")[1])["error"] is None


def test_times_and_tolerances_arrive(module, capsys):
    name, path = module
    words = [f"{name}:cost", "--path", path, "--x0", "0,0", "--sigma0", 0.3, "--seed", 1, "--json"]
    assert json.loads(run(capsys, *words, "--maxtime", "1e-9")[1])["reasons"].keys() == {"maxtime"}
    for option in ("tolfun", "tolx"):
        found = json.loads(run(capsys, *words, f"--{option}", "1e-2")[1])
        assert found["nfev"] < json.loads(run(capsys, *words)[1])["nfev"]
        assert found["success"]
    status, _, err = run(capsys, *words, "--tolx", "-1")
    assert (status, "at least 0" in err) == (2, True)


def test_workers_may_be_as_many_as_there_are_cores(module, capsys):
    name, path = module
    words = ["--x0", "0,0", "--sigma0", 0.3, "--maxiter", 2, "--workers", "-1"]
    assert run(capsys, f"{name}:cost", "--path", path, *words)[0] == 0
    assert run(capsys, *words, "--command", *python("print(3)"))[0] == 0


def test_a_function_may_have_a_timeout_and_its_errors_may_count_as_failures(module, capsys):
    name, path = module
    words = ["--path", path, "--x0", "0,0", "--sigma0", 0.3, "--seed", 1, "--maxiter", 1, "--json"]
    slow = json.loads(run(capsys, f"{name}:slow", *words, "--timeout", 0.3)[1])
    assert slow["failures"].keys() == {"timeout"}
    assert [finding["name"] for finding in slow["diagnosis"]] == ["failed"]
    status, out, err = run(capsys, f"{name}:raises", *words, "--on-error", "nan")
    assert (status, err) == (1, "")
    assert json.loads(out)["failures"] == {"error": json.loads(out)["nfev"]}


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [("0", [True, False]), ("rate", [True, False]), ("rate,1", True), ("0,1", True), ("all", True), (None, False)],
)
def test_variables_are_log_scaled(module, capsys, chosen, expected):
    name, path = module
    words = [f"{name}:cost", "--path", path, "--x0", "2,3", "--sigma0", 0.5, "--seed", 1, "--maxiter", 30, "--json"]
    words += ["--names", "rate,depth"]
    found = json.loads(run(capsys, *words, *(["--log-scaled", chosen] if chosen else []))[1])
    result = sl.minimize(
        lambda x: (x[0] - 1) ** 2 + 100 * (x[1] + 2) ** 2, [2, 3], 0.5, rng=1, maxiter=30, log_scaled=expected
    )
    assert found["x"] == result.x.tolist()


def test_deviations_are_those_of_the_users_variables(module, capsys):
    name, path = module
    words = [
        "--x0",
        "4,-2",
        "--sigma0",
        0.001,
        "--bounds",
        "none:none,-9:9",
        "--log-scaled",
        "0",
        "--seed",
        1,
        "--maxiter",
        1,
    ]
    _, out, _ = run(capsys, f"{name}:cost", "--path", path, *words)
    settings = {"bounds": [(None, None), (-9, 9)], "log_scaled": [True, False], "rng": 1, "maxiter": 1}
    result = sl.minimize(lambda x: (x[0] - 1) ** 2 + 100 * (x[1] + 2) ** 2, [4, -2], 0.001, **settings)
    of_ln_x, of_x = np.sqrt(np.diag(result.cov))
    assert f"std    {result.mean[0] * of_ln_x:.3g},{of_x:.3g}" in out
    theta = result.history.snapshots[-1].theta
    drawn = result.history.space.points(np.random.default_rng(1).multivariate_normal(theta.mean, theta.cov, 20_000))
    np.testing.assert_allclose(drawn.std(axis=0), [result.mean[0] * of_ln_x, of_x], rtol=0.02)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--x0 -1,2 --sigma0 1", "--x0=-1,2 --sigma0 1"),
        ("--bounds -5:5,-inf:3 -- -1", "--bounds=-5:5,-inf:3 -- -1"),
        ("--ftarget -.5 --json", "--ftarget=-.5 --json"),
        ("--x0=1 -2", "--x0=1 -2"),
        ("--x0 1 --command sim --shift -1", "--x0 1 --command sim --shift -1"),
        ("--com sim --shift -1", "--com sim --shift -1"),
        ("--json -v", "--json -v"),
        ("", ""),
    ],
)
def test_values_that_begin_with_a_minus_belong_to_their_option(words, expected):
    assert join_negative_values(words.split()) == expected.split()


def test_help_keeps_capital_letters(capsys):
    assert "Minimize a Python function or an external program." in run(capsys, "--help")[1]


def test_an_exception_of_the_function_is_shown_with_the_point(module, capsys):
    name, path = module
    status, out, err = run(capsys, f"{name}:raises", "--path", path, "--x0", "0,0", "--sigma0", 0.3)
    assert (status, out) == (1, "")
    assert "ZeroDivisionError: in the objective\nsublevel: raised at x = [" in err


def test_no_usable_value_is_in_the_exit_status_and_json_has_no_nan(module, capsys):
    name, path = module
    status, out, _ = run(capsys, f"{name}:nothing", "--path", path, "--x0", "0,0", "--sigma0", 0.3, "--json")
    assert status == 1
    assert json.loads(out, parse_constant=lambda word: pytest.fail(word))["fun"] is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"function": "nosuchmodule:cost"}, "cannot import nosuchmodule"),
        ({"function": "{name}:cots"}, "no function cots. Did you mean cost"),
        ({"function": "{name}:number"}, "no function number"),
        ({"function": "{name}"}, "expected module:function"),
        ({"function": "{name}:cost()"}, "expected module:function"),
        ({"function": "os;rm -rf:cost"}, "expected module:function"),
        ({"function": "../evil:cost"}, "expected module:function"),
        ({"function": None}, "either module:function or --command"),
        ({"--x0": "1,b"}, "numbers separated by commas"),
        ({"--x0": "nan"}, "numbers separated by commas"),
        ({"--sigma0": "-1"}, "`sigma0` must be positive"),
        ({"--sigma0": "1,2,3"}, "one entry per variable"),
        ({"--bounds": "1"}, "low:high"),
        ({"--bounds": "1:2:3"}, "low:high"),
        ({"--bounds": "0:1,0:1,0:1"}, "each of the 2 variables"),
        ({"--method": "cam"}, "Did you mean 'cma'"),
        ({"--restarts": "often"}, "'ipop', 'bipop'"),
        ({"--maxfevals": "0"}, "at least 1"),
        ({"--plot": "run.txt"}, "must end with one of"),
        ({"--plot": "/no/such/place/run.png"}, "no directory"),
        ({"--path": "/no/such/place"}, "must be a directory"),
        ({"--timeout": "0"}, "positive number of seconds"),
        ({"--workers": "-2"}, "at least 1, or -1 for one per core"),
        ({"--workers": "0"}, "at least 1"),
        ({"--maxfevals": "1.5"}, "at least 1"),
        ({"--maxfevals": "nan"}, "at least 1"),
        ({"--maxiter": "-3"}, "at least 1"),
        ({"--on-error": "ignore"}, "invalid choice: 'ignore'"),
        ({"--log-scaled": "0,,1"}, "zero-based indices"),
        ({"--log-scaled": "first"}, "no variable 'first'; --x0 has 2 variables, numbered from 0\\.$"),
        ({"--log-scaled": "first", "--names": "a,b"}, "no variable 'first'; --x0 has 2 .* and named a,b\\."),
        ({"--log-scaled": "2"}, "no variable '2'"),
        ({"--log-scaled": "0"}, "positive"),
        ({"--cov0": "1,0;0"}, "rows of equal length, separated by semicolons"),
        ({"--cov0": "1,x;0,1"}, "rows of equal length, separated by semicolons"),
        ({"--cov0": "1,2"}, r"shape \(2, 2\)"),
        ({"--constraint-tol": "-1"}, "at least 0"),
        ({"--constraint-handling": "lexicographic"}, "`constraint_handling` needs `constraints`"),
    ],
)
def test_bad_usage_is_explained(module, capsys, change, words):
    name, path = module
    options = {"--path": path, "--x0": "0,0", "--sigma0": "0.3", **change}
    function = options.pop("function", f"{name}:cost")
    arguments = [str(word) for pair in options.items() for word in pair]
    status, out, err = run(capsys, *([] if function is None else [function.format(name=name)]), *arguments)
    assert (status, out) == (2, "")
    assert re.search(words, err), err


INSTALLED = "import sys; sys.path.pop(0); from sublevel.cli.main import main; sys.exit(main(sys.argv[1:]))"
"""What the installed command does: the working directory is not on Python's path."""


def run_in(directory, *words, **options):
    """A command as a user would type it in a directory."""
    command = [
        sys.executable,
        "-c",
        INSTALLED,
        "minimize",
        *map(str, words),
        "--x0",
        "0,0",
        "--sigma0",
        "1",
        "--maxiter",
        "2",
    ]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, **options)


def test_a_function_of_the_working_directory_needs_no_path(tmp_path):
    (tmp_path / "here.py").write_text("from neighbour import scale\ndef cost(x): return scale * sum(x)\n")
    (tmp_path / "neighbour.py").write_text("scale = 2.0\n")
    done = run_in(tmp_path, "here:cost", "--workers", 2)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["cost", "means"], ids=["no similar name", "a similar name"])
def test_an_installed_module_comes_before_one_of_the_working_directory(tmp_path, name):
    (tmp_path / "statistics.py").write_text(f"open('executed', 'w')\ndef {name}(x): return sum(x)\n")
    done = run_in(tmp_path, f"statistics:{name}")
    assert done.returncode == 2
    assert f"use ./statistics.py:{name} for the one in the working directory" in done.stderr
    assert not (tmp_path / "executed").exists()


def test_the_working_directory_is_not_searched_for_anything_else(tmp_path):
    """A file that is called like something the package imports is not executed, whatever is named."""
    directory = tmp_path / "objectives"
    directory.mkdir()
    (directory / "mine.py").write_text("def cost(x): return sum(x)\n")
    for name in ("tqdm", "matplotlib", "pyarrow", "json", "numpy"):
        (tmp_path / f"{name}.py").write_text("open('executed', 'w')\n")
    assert run_in(tmp_path, "objectives/mine.py:cost", "--plot", "run.png").returncode == 0
    assert run_in(tmp_path, "nosuch:cost").returncode == 2
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("file", ["objective_in_a_file.py", "json.py", "with-dash.py", "two words.py"])
def test_a_function_of_a_file_is_minimised_whatever_the_file_is_called(tmp_path, capsys, monkeypatch, file):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    beside = f"beside_{re.sub(r'[^a-z]', '_', file)}"
    (tmp_path / file).write_text(f"from {beside} import scale\ndef cost(x): return scale * sum(x)\n")
    (tmp_path / f"{beside}.py").write_text("scale = 2.0\n")
    status, _, err = run(capsys, f"{file}:cost", "--x0", "0,0", "--sigma0", 1, "--maxiter", 2)
    assert (status, err) == (0, "")


def test_workers_find_the_function_of_a_file(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "random.py").write_text("CALLS = []\ndef cost(x):\n    CALLS.append(x)\n    return sum(x)\n")
    done = run_in(tmp_path, tmp_path / "folder" / "random.py:cost", "--workers", 2)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nosuch.py:cost", "there is no file nosuch.py"),
        ("mine.py:cots", "mine.py has no function cots. Did you mean cost"),
        ("broken.py:cost", "importing broken.py failed: ZeroDivisionError"),
        ("mine.py", "expected module:function or file.py:function"),
    ],
)
def test_a_file_without_the_function_is_explained(tmp_path, capsys, monkeypatch, name, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "mine.py").write_text("def cost(x): return sum(x)\n")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    status, _, err = run(capsys, name, "--x0", "0", "--sigma0", 1)
    assert (status, words in err) == (2, True), err


def test_a_module_that_fails_to_import_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "broken_on_import.py").write_text("1 / 0\n")
    status, _, err = run(capsys, "broken_on_import:f", "--path", tmp_path, "--x0", "0", "--sigma0", 1)
    assert (status, "ZeroDivisionError" in err) == (2, True)


# ---------------------------------------------------------------------------------------------------- programs

SQUARES = "import json, sys; x = json.load(sys.stdin); "


def python(code):
    return [sys.executable, "-S", "-c", code]


def test_a_program_is_minimised(capsys):
    command = python(SQUARES + "sys.exit('too far') if x[0] > 0.6 else print(sum(v * v for v in x))")
    status, out, _ = run(
        capsys,
        "--x0",
        "0.5,0.5",
        "--sigma0",
        0.2,
        "--maxfevals",
        61,
        "--seed",
        1,
        "--workers",
        2,
        "--command",
        *command,
    )
    assert status == 0
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert float(lines["fun"].split()[1]) < 0.3
    failed = int(lines["note"].split()[2])
    assert 0 < failed < 60
    assert f"note   failed: {failed} of 61 evaluations failed ({failed} exit status 1)" in lines["note"]
    assert lines["note"].endswith(": exit status 1: too far")


def test_a_program_that_fails_always_is_no_success(capsys):
    status, out, _ = run(capsys, "--x0", "0.5", "--sigma0", 0.2, "--json", "--command", "false")
    found = json.loads(out)
    assert (status, found["fun"], list(found["reasons"])) == (1, None, ["all_failed"])
    assert found["failures"] == {"exit status 1": found["nfev"]}
    assert [finding["name"] for finding in found["diagnosis"]] == ["failed"]
    assert found["diagnosis"][0]["numbers"]["exit status 1"] == found["nfev"]


def test_a_program_that_fails_may_end_the_run(capsys):
    words = ["--x0", "0.5", "--sigma0", 0.2, "--json", "--on-error", "raise"]
    status, out, err = run(capsys, *words, "--command", *python("import sys; sys.exit('too far')"))
    assert (status, json.loads(out)["nfev"]) == (1, 0)
    assert "EvaluationFailed: exit status 1: too far" in err


@pytest.mark.parametrize("workers", [1, 2])
def test_programs_that_fail_are_told_of_after_resuming_too(capsys, tmp_path, workers):
    file, command = (
        tmp_path / "run.db",
        python(SQUARES + "sys.exit('too far') if x[0] > 0.6 else print(sum(v * v for v in x))"),
    )
    words = ["--workers", workers, "--json", "--command", *command]
    run(capsys, "--x0", "0.5,0.5", "--sigma0", 0.2, "--seed", 1, "--maxfevals", 12, "--store", file, *words)
    assert main(["resume", str(file), "--maxfevals", "24", *map(str, words)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["failures"].keys() >= {"exit status 1"}
    assert found["diagnosis"][0]["name"] == "failed"


@pytest.mark.parametrize("command", [[], ["no-such-program-anywhere"]])
def test_a_program_that_is_not_there_is_bad_usage(command, capsys):
    status, _, err = run(capsys, "--x0", "0.5", "--sigma0", 0.2, "--command", *command)
    assert (status, "program not found" in err) == (2, True)


def test_a_program_gets_every_bit_of_the_point_and_no_shell():
    point = np.array([0.1, -1e-300, 1 / 3])
    program = Program(
        python(
            f"import json, sys; print(float(json.load(sys.stdin) == {point.tolist()!r} and sys.argv[1:] == ['$(id)', "
            "'; ls']))"
        )
    )
    program.argv = [*program.argv, "$(id)", "; ls"]
    assert program(point) == 1.0


@pytest.mark.parametrize(
    ("printed", "value"),
    [("1", 1.0), (" -2.5e-3\n", -2.5e-3), ("+.5", 0.5), ("inf", np.inf), ("1.", 1.0), ("1E5", 1e5)],
)
def test_numbers_that_are_understood(printed, value):
    assert Program(python(f"print({printed!r}, end='')"))(np.zeros(2)) == value


def failure_of(program):
    """How a program fails at a point."""
    with pytest.raises(EvaluationFailed) as raised:
        program(np.zeros(2))
    return Failure.from_exception(raised.value)


@pytest.mark.parametrize(
    "printed", ["", "one", "1 2", "1\n2", "1_000", "0x10", "1,5", "١", "nan", "1e", "--1", "\x00", "{}"]
)
def test_anything_else_is_a_failed_evaluation(printed):
    program = Program(python(f"import sys; sys.stdout.buffer.write({printed!r}.encode())"))
    assert failure_of(program).kind == ("nan" if printed == "nan" else "no number")


def test_a_flood_of_output_is_cut_off():
    program = Program(python("while True: print('1' * 1000)"))
    assert failure_of(program).kind == "too much output"


def test_a_flood_of_complaints_does_not_block():
    program = Program(python("import sys; sys.stderr.write('x' * 10**6 + '\\nlast words\\x1b[0m'); sys.exit(4)"))
    assert failure_of(program)[:2] == ("exit status 4", "exit status 4: last words [0m")


def test_a_program_need_not_read_its_input():
    assert Program(python("print(3)"))(np.zeros(100_000)) == 3.0


def test_a_program_that_cannot_start_is_a_failed_evaluation(tmp_path):
    program = Program([str(tmp_path)])
    assert failure_of(program).kind == "not started"


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


@linux
def test_a_timeout_ends_the_program_and_its_children(tmp_path):
    pid_file = tmp_path / "pid"
    code = (
        f"import subprocess, time; p = subprocess.Popen(['sleep', '100']); open({str(pid_file)!r}, "
        f"'w').write(str(p.pid)); time.sleep(100)"
    )
    program = Program(python(code), timeout=1.0)
    assert failure_of(program)[:2] == ("timeout", "timeout: longer than 1 s")
    assert ends(int(pid_file.read_text()))


@linux
def test_a_child_that_holds_the_output_open_does_not_hang_the_search():
    program = Program(["sh", "-c", "sleep 100 & echo 5"])
    began = time.monotonic()
    assert program(np.zeros(2)) == 5.0
    assert time.monotonic() - began < 20


@linux
def test_ctrl_c_ends_programs_and_prints_what_was_found(tmp_path):
    log = tmp_path / "pids"
    code = (
        f"import json, os, sys, time; open({str(log)!r}, 'a').write(f'{{os.getpid()}}\\n'); x = json.load(sys.stdin); "
    )
    code += "time.sleep(100 if x[0] < -1 else 0); print(x[0])"
    command = [sys.executable, "-m", "sublevel", "minimize", "--x0", "0", "--sigma0", "0.3", "--workers", "2", "--json"]
    process = subprocess.Popen(
        [*command, "--command", *python(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        counts = [0, -1]
        while len(counts) < 60 and (counts[-1] < 12 or counts[-1] > counts[-2]):  # until the programs sleep
            time.sleep(0.5)
            counts.append(len(log.read_text().split()) if log.exists() else 0)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert (process.returncode, err) == (130, "")
    found = json.loads(out)
    assert list(found["reasons"]) == ["interrupted"]
    assert found["fun"] < 0
    assert all(ends(int(pid)) for pid in log.read_text().split())


INTERRUPTING = """
import os, signal

def cost(x, calls=[]):
    calls.append(x)
    if len(calls) == 20:
        os.kill(os.getpid(), signal.SIGINT)
    return float(x @ x)
"""


@pytest.mark.parametrize("store", [True, False], ids=["stored", "not stored"])
def test_an_interrupted_run_says_how_to_continue(tmp_path, store):
    (tmp_path / "fit.py").write_text(INTERRUPTING)
    done = run_in(tmp_path, "fit.py:cost", "--popsize", 20, *(["--store", "my run.db"] if store else []))
    assert done.returncode == 130
    expected = (
        f"Continue with: sublevel resume '{tmp_path / 'my run.db'}' ..., and the function or --command as before."
    )
    assert done.stdout.splitlines()[-1].startswith("Continue with") == store
    assert (expected in done.stdout) == store
