"""External programs as they are: arguments from a template, values found by a pattern, and that no program outlives its
run.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from helpers.processes import ends
from sublevel.cli.main import main
from sublevel.cli.program import LAST_NUMBER, NUMBER, Program, find_value
from sublevel.cli.template import fill_arguments, used_variables
from sublevel.evaluation.failures import EvaluationFailed
from test_cli_minimize import failure_of, linux, python

SQUARES = "import sys; print(sum((float(v.rpartition('=')[2]) - 1) ** 2 for v in sys.argv[1:]))"
CASES = {  # arguments, and what becomes of them at (0.1, -2)
    "by number": (["{0}", "{1}"], ["0.1", "-2.0"]),
    "by default name": (["{x1}", "{x0}"], ["-2.0", "0.1"]),
    "inside an argument": (["--rate={0}", "{0}:{1}"], ["--rate=0.1", "0.1:-2.0"]),
    "all in order": (["-v", "{}", "end"], ["-v", "0.1", "-2.0", "end"]),
    "literal braces": (["{{0}}", "{{}}", "{{}}{0}"], ["{0}", "{}", "{}0.1"]),
    "braces of other languages": (
        ["{print $1}", '{"a": 1}', "{", "}", "{{a b}}"],
        ["{print $1}", '{"a": 1}', "{", "}", "{{a b}}"],
    ),
    "nothing for a shell": (["$(id);{0}", "`ls`"], ["$(id);0.1", "`ls`"]),
}


def run(capsys, *arguments):
    """Exit status, what was printed, and what was complained of."""
    try:
        status = main([*map(str, arguments)])
    except SystemExit as end:
        status = end.code
    captured = capsys.readouterr()
    return status, captured.out, captured.err


# ---------------------------------------------------------------------------------------------------- templates


@pytest.mark.parametrize("case", CASES)
def test_places_are_filled_argument_by_argument(case):
    arguments, expected = CASES[case]
    assert fill_arguments(["prog", *arguments], [0.1, -2.0]) == ["prog", *expected]


def test_names_stand_for_variables():
    argv = ["prog", "--rate={rate}", "{k-1}", "{1}"]
    assert fill_arguments(argv, [0.1, -2.0], ["rate", "k-1"]) == ["prog", "--rate=0.1", "-2.0", "-2.0"]
    assert used_variables(argv, 2, ["rate", "k-1"]) == {0, 1}
    assert used_variables(["prog", "plain"], 2) is None


def test_values_keep_every_bit():
    values = [1 / 3, 1e-300, -5e-324, 1.7976931348623157e308]
    assert [float(word) for word in fill_arguments(["prog", "{}"], values)[1:]] == values


def test_arguments_are_filled_from_the_command_line(capsys):
    words = ["--x0", "0,0", "--sigma0", 0.5, "--seed", 1, "--maxiter", 1, "--json"]
    for template in (["{}"], ["--rate={0}", "--depth={1}"], ["{x0}", "{x1}"]):
        status, out, err = run(capsys, "minimize", *words, "--command", *python(SQUARES), *template)
        assert (status, err) == (0, "")
        found = json.loads(out)
        assert found["fun"] == sum((v - 1) ** 2 for v in found["x"])


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (
            ["{rate}"],
            r"unknown placeholder \{rate\}; available: \{0\} to \{1\}.*--names.*\{\{rate\}\} for the text \{rate\}",
        ),
        (["{2}"], r"unknown placeholder \{2\}"),
        (["--x={}"], "must be a separate argument"),
    ],
)
def test_a_template_that_makes_no_sense_is_explained(capsys, template, words):
    status, out, err = run(capsys, "minimize", "--x0", "0,0", "--sigma0", 0.5, "--command", "echo", *template)
    assert (status, out) == (2, "")
    assert re.search(words, err), err


def test_the_program_is_not_chosen_by_a_variable(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sim{0}").write_text("#!/bin/sh\necho 1\n")
    (tmp_path / "sim{0}").chmod(0o755)
    status, _, err = run(capsys, "minimize", "--x0", "0,0", "--sigma0", 0.5, "--command", "./sim{0}")
    assert (status, "cannot contain a variable" in err) == (2, True)


def test_a_variable_that_is_not_used_is_noted(capsys):
    _, _, err = run(capsys, "minimize", "--x0", "0,0", "--sigma0", 0.5, "--maxiter", 1, "--command", "echo", "{1}")
    assert "note: the arguments of the program do not use {0}" in err


def test_names_are_given_kept_and_used_again(capsys, tmp_path):
    file, ending = tmp_path / "run.db", ["--command", *python(SQUARES), "--rate={rate}", "{depth}"]
    words = ["--x0", "0,0", "--sigma0", 0.5, "--seed", 1, "--maxfevals", 6]
    status, out, err = run(capsys, "minimize", *words, "--names", "rate,depth", "--store", file, *ending)
    assert (status, err) == (0, "")
    assert "\nnames  rate,depth\n" in out
    status, out, err = run(capsys, "resume", file, "--maxfevals", 12, "--json", *ending)
    found = json.loads(out)
    assert (status, err, found["nfev"], found["names"]) == (0, "", 12, ["rate", "depth"])
    assert found["fun"] == sum((v - 1) ** 2 for v in found["x"])
    status, _, err = run(capsys, "resume", file, "--command", "echo", "{speed}")
    assert (status, "unknown placeholder {speed}; available: {rate}, {depth}." in err) == (2, True)
    assert "names    rate,depth" in run(capsys, "show", file)[1]


@pytest.mark.parametrize(
    ("names", "words"), [("rate", "each of the 2 variables"), ("a,a", "differ"), ("a,", "names separated by commas")]
)
def test_names_that_make_no_sense_are_refused(capsys, names, words):
    status, _, err = run(
        capsys, "minimize", "--x0", "0,0", "--sigma0", 0.5, "--names", names, "--command", "echo", "{a}"
    )
    assert (status, words in err) == (2, True), err


def test_a_forgotten_order_of_options_is_explained(capsys):
    status, _, err = run(capsys, "minimize", "--command", "./sim", "{0}", "--x0", "0", "--sigma0", "1")
    assert status == 2
    assert "--x0 and --sigma0 must be given" in err
    assert "put --command last" in err


# ---------------------------------------------------------------------------------------------------- patterns


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("step 1: 7.5\nstep 2: 3.25\n", 3.25),
        ("the cost is 1.5.", 1.5),
        ("cost=-2e-3, done", -2e-3),
        ("1.50D+02", 150.0),
        ("x1 3 y2", 3.0),
        ("version 1.2.3: 4", 4.0),
        ("loss: inf", np.inf),
        ("(7)", 7.0),
    ],
)
def test_the_last_number_is_taken(printed, value):
    assert Program(["echo", printed], pattern=LAST_NUMBER)(np.zeros(2)) == value


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        (r"cost\s*=\s*(.*)", 2.5),
        (r"^cost = ([-+.\de]+)", 2.5),
        (r"(?<=time )\d+", 30.0),
        (r"cost = (?:\S+)|(?:(1)2)", None),
    ],
)
def test_the_last_match_of_a_pattern_is_the_value(pattern, value):
    program = Program(["printf", "cost = 9\ncost = 2.5\ntime 30 s\n"], pattern=re.compile(pattern, re.MULTILINE))
    if value is None:
        assert failure_of(program).kind == "no number"
    else:
        assert program(np.zeros(2)) == value


@pytest.mark.parametrize("printed", ["", "no numbers v1.2.3 here", "nothing"])
def test_output_without_a_match_is_a_failed_evaluation(printed):
    assert failure_of(Program(["echo", printed], pattern=LAST_NUMBER)).kind == "no number"


@pytest.mark.parametrize("printed", ["1" * 2**20 + "a", "1." + "1" * 2**20 + "_", "1e" + "1" * 2**20 + "_"])
def test_the_time_to_find_a_number_is_linear(printed):
    """With two ways to read the same digits, this would take days."""
    assert find_value(LAST_NUMBER, printed) is None
    assert find_value(LAST_NUMBER, f"{printed} 2.5") == "2.5"
    assert NUMBER.fullmatch(printed) is None


def test_a_long_log_may_be_printed_before_the_value():
    program = Program(
        python("for i in range(100000): print('step', i, 'of many')\nprint('cost 2.5')"), pattern=LAST_NUMBER
    )
    assert program(np.zeros(2)) == 2.5


def test_patterns_come_from_the_command_line_and_are_kept_for_resuming(capsys, tmp_path):
    file, code = (
        tmp_path / "run.db",
        SQUARES.replace("print(", "print('cost:', ").replace("sys.argv[1:])", "sys.argv[1:]), 'time: 3'"),
    )
    ending = ["--pattern", "cost: (.*) time", "--command", *python(code), "{}"]
    words = ["--x0", "0,0", "--sigma0", 0.5, "--seed", 1, "--maxfevals", 13, "--json"]
    status, out, err = run(capsys, "minimize", *words, "--store", file, *ending)
    assert (status, err, json.loads(out)["failures"]) == (0, "", {})
    assert "--pattern 'cost: (.*) time' --command" in run(capsys, "show", file)[1]
    status, out, err = run(capsys, "resume", file, "--maxfevals", 25, "--json", *ending)
    assert (status, err, json.loads(out)["nfev"]) == (0, "", 25)
    assert "started with --pattern" in run(capsys, "resume", file, "--pattern", "last", *ending[2:])[2]


@pytest.mark.parametrize(
    ("pattern", "words"), [("(", "expected a regular expression"), ("(1)(2)", "at most one group")]
)
def test_a_pattern_that_makes_no_sense_is_refused(capsys, pattern, words):
    status, _, err = run(capsys, "minimize", "--x0", "0", "--sigma0", 1, "--pattern", pattern, "--command", "echo", "1")
    assert (status, words in err) == (2, True)


def test_a_pattern_needs_a_program(capsys):
    status, _, err = run(capsys, "minimize", "math:fsum", "--x0", "0", "--sigma0", 1, "--pattern", "last")
    assert (status, "needs --command" in err) == (2, True)


# ---------------------------------------------------------------------------------------------------- how programs end


@linux
def test_the_number_is_taken_though_a_daemon_holds_the_output_open():
    program = Program(["sh", "-c", "setsid sleep 5 & echo 1.5"])
    assert program(np.zeros(2)) == 1.5


@linux
def test_a_background_process_may_print_the_number_a_little_later():
    assert Program(["sh", "-c", "(sleep 0.2; echo 4.5) & exit 0"])(np.zeros(2)) == 4.5


@linux
def test_what_a_program_leaves_in_the_background_ends_with_the_evaluation():
    """Also if it does not hold the output open."""
    program = Program(["sh", "-c", "sleep 100 >/dev/null 2>&1 & echo $!"])
    assert ends(int(program(np.zeros(2))))


LOGGED = """import os, subprocess, time
child = subprocess.Popen(["sleep", "100"])
with open({log!r}, "a") as log: log.write(f"{{os.getpid()}} {{child.pid}}\\n")
os.closerange(3, 100)  # as some programs do
time.sleep(100)"""


def wait_for_programs(log, number):
    """The processes of as many programs, once they run."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and (not log.exists() or len(log.read_text().splitlines()) < number):
        time.sleep(0.05)
    return [int(word) for word in log.read_text().split()]


@linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGQUIT])
def test_no_program_outlives_the_driver(tmp_path, number):
    log = tmp_path / "pids"
    command = [sys.executable, "-m", "sublevel", "minimize", "--x0", "0", "--sigma0", "0.3", "--workers", "2"]
    program = python(LOGGED.format(log=str(log)))
    driver = subprocess.Popen(
        [*command, "--command", *program], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        processes = wait_for_programs(log, 2)
        assert len(processes) == 4
        driver.send_signal(number)
        driver.wait(20)
        assert all(ends(process) for process in processes)
    finally:
        driver.kill()
        driver.wait()


@linux
def test_a_supervisor_that_is_killed_takes_no_program_with_it_unnoticed(tmp_path):
    log = tmp_path / "pids"
    code = f"import os, time; open({str(log)!r}, 'w').write(f'{{os.getpid()}} {{os.getppid()}}'); time.sleep(100)"
    program = Program(["sh", "-c", 'read x; case "$x" in "[0.0]") exec "$@";; esac; echo 3', "sh", *python(code)])

    def kill():
        os.kill(wait_for_programs(log, 1)[1], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(EvaluationFailed, match="supervisor lost"):
        program(np.zeros(1))
    thread.join()
    assert ends(wait_for_programs(log, 1)[0])
    assert program(np.ones(1)) == 3.0
    program.close()


def test_a_program_that_was_closed_evaluates_no_more():
    program = Program(["echo", "1"])
    assert program(np.zeros(1)) == 1.0
    program.close()
    assert failure_of(program).kind == "interrupted"


def test_a_supervisor_serves_many_evaluations():
    """A process for each evaluation besides the program itself would cost more than most programs."""
    program = Program(python("import os; print(os.getppid())"))
    assert program(np.zeros(1)) == program(np.zeros(1)) != os.getpid()
    program.close()


# ---------------------------------------------------------------------------------------------------- for a first fit

LINE = """
t = [0, 1, 2, 3, 4]
y = [1.1, 2.9, 5.2, 6.8, 9.1]


def chi2(p):
    return sum((p[0] + p[1] * a - b) ** 2 for a, b in zip(t, y))
"""


def test_a_first_failure_is_printed_before_the_run_ends(capsys):
    program = ["--command", *python("print('chi2 = 3')")]
    status, _, said = run(capsys, "minimize", "--x0", "0,0", "--sigma0", "0.3", "--maxiter", 2, "--seed", 1, *program)
    assert status == 1
    assert said.count("first failed evaluation, at ") == 1
    assert "use --pattern for other output" in said


def test_values_separated_by_spaces_are_explained(capsys):
    for words in (["1", ".3", "1"], ["1,", "2"], ["-1", "2e0"]):
        status, _, said = run(capsys, "minimize", "--x0", *words, "--sigma0", "0.3", "--command", "./sim")
        assert status == 2
        assert "--x0: separate values by commas, without spaces: --x0 " in said


@pytest.mark.parametrize("as_program", [False, True])
def test_error_bars_of_a_fit_are_those_of_linear_least_squares(capsys, tmp_path, as_program):
    (tmp_path / "line.py").write_text(LINE)
    design, y = np.vander(np.arange(5.0), 2, increasing=True), np.array([1.1, 2.9, 5.2, 6.8, 9.1])
    best, squares, *_ = np.linalg.lstsq(design, y)
    exact = np.sqrt(np.diagonal(np.linalg.inv(design.T @ design)) * squares[0] / 3)
    call = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from line import chi2; print('chi2 =', "
        f"chi2([*map(float, sys.argv[1:])]))"
    )
    ways = ["--pattern", "last", "--command", *python(call), "{}"] if as_program else [f"{tmp_path}/line.py:chi2"]
    options = [
        "--x0",
        "0,0",
        "--sigma0",
        "1",
        "--seed",
        1,
        "--error-bars",
        5,
        "--json",
        "--maxfevals",
        260,
        "--tolfun",
        "1e-6",
    ]
    status, out, said = run(capsys, "minimize", *options, *ways)
    assert status == 0, said
    found = json.loads(out)["error_bars"]
    np.testing.assert_allclose(found["stderr"], exact, rtol=1e-3)
    np.testing.assert_allclose(found["x"], best, atol=1e-3 * exact.min())
    assert np.shape(found["intervals"]) == (2, 2)


def test_error_bars_are_printed_and_survive_a_resume(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "line.py").write_text(LINE)
    common = ["line.py:chi2", "--error-bars", "nll", "--maxfevals"]
    assert (
        run(capsys, "minimize", *common, 30, "--x0", "0,0", "--sigma0", "1", "--store", "a.db", "--names", "cut,slope")[
            0
        ]
        == 0
    )
    status, out, said = run(capsys, "resume", "a.db", *common, 300)
    assert status == 0, said
    assert "f is a negative log-likelihood" in out
    assert "slope     1.99" in out
    of_search, of_error_bars = map(int, re.search(r"spent +(\d+) .*generations, (\d+) .*for error bars", out).groups())
    assert of_search <= 300 < of_search + of_error_bars


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--error-bars", "chi2"], "expected nll"),
        (["--error-bars", "2"], "must exceed the number of variables, 2, got 2"),
        (["--error-bars", "nll", "--method", "pbil"], "binary methods have no curvature"),
    ],
)
def test_impossible_error_bars_are_refused_before_the_run(capsys, tmp_path, options, sentence):
    program = ["--command", *python(f"open({str(tmp_path / 'ran')!r}, 'w')")]
    status, _, said = run(capsys, "minimize", "--x0", "0.5,0.5", "--sigma0", 1, *options, *program)
    assert status == 2
    assert sentence in " ".join(said.split())
    assert not (tmp_path / "ran").exists()
