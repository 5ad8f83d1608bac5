"""Stored runs from the command line: going on, looking, watching, reporting, and that a file chooses nothing that is
run.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import sublevel as sl
from sublevel.cli.main import main
from sublevel.store.fingerprint import fingerprint
from sublevel.store.settings import Target
from test_hostile_files import forged_part
from test_report_page import BROWSER, FLAGS

MODULE = """
import os
def cost(x):
    if os.path.exists({stop!r}):
        raise ZeroDivisionError("stopped")
    return float((x[0] - 1) ** 2 + 100 * (x[1] + 2) ** 2)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The words that name a function, and a file whose presence makes it fail."""
    name = f"stored_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE.format(stop=str(tmp_path / "stop")))
    monkeypatch.setattr(sys, "path", [*sys.path])
    return [f"{name}:cost", "--path", str(tmp_path)], tmp_path / "stop"


def run(capsys, *arguments):
    """Exit status, what was printed, and what was complained of."""
    try:
        status = main([*map(str, arguments)])
    except SystemExit as end:
        status = end.code
    captured = capsys.readouterr()
    return status, captured.out, captured.err


START = ["--x0", "0,0", "--sigma0", "0.5", "--seed", "1"]


def test_a_run_goes_on_from_the_command_line(module, capsys, tmp_path):
    words, stop = module
    status, whole, _ = run(capsys, "minimize", *words, *START, "--store", tmp_path / "whole.db", "--json")
    assert status == 0
    stop.touch()
    assert run(capsys, "minimize", *words, *START, "--store", tmp_path / "run.db", "--json")[0] == 1
    stop.unlink()
    status, resumed, err = run(capsys, "resume", tmp_path / "run.db", *words, "--json")
    assert (status, err) == (0, "")
    assert json.loads(resumed)["x"] == json.loads(whole)["x"]
    assert fingerprint(tmp_path / "run.db") == fingerprint(tmp_path / "whole.db")


def test_what_is_minimised_has_to_be_named_again(module, capsys, tmp_path):
    words, _ = module
    run(capsys, "minimize", *words, *START, "--maxfevals", 30, "--store", tmp_path / "run.db")
    status, out, err = run(capsys, "resume", tmp_path / "run.db")
    assert (status, out) == (2, "")
    assert words[0] in err
    assert "give the function or program again" in err


def test_a_file_that_names_a_program_runs_nothing(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evil = {"command": ["touch", "executed\x1b[2J"], "timeout": None}
    sl.minimize(lambda x: np.sum(x**2), np.ones(2), 0.3, rng=1, maxfevals=30, store=Target(tmp_path / "run.db", evil))
    for arguments in (["resume", "run.db"], ["show", "run.db"], ["runs"], ["watch", "run.db"], ["report", "run.db"]):
        _, out, err = run(capsys, *arguments)
        assert "\x1b" not in out + err
    assert not list(tmp_path.glob("executed*"))


def test_another_objective_is_noted(module, capsys, tmp_path):
    words, _ = module
    run(capsys, "minimize", *words, *START, "--maxfevals", 30, "--store", tmp_path / "run.db")
    program = [
        sys.executable,
        "-c",
        "import json; x = json.loads(input()); print((x[0] - 1) ** 2 + 100 * (x[1] + 2) ** 2)",
    ]
    status, _, err = run(
        capsys, "resume", tmp_path / "run.db", "--maxfevals", 42, "--workers", 2, "--command", *program
    )
    assert status == 0
    assert f"started with {words[0]}" in err


def test_an_objective_with_other_values_is_refused_in_one_line(module, capsys, tmp_path):
    words, _ = module
    run(capsys, "minimize", *words, *START, "--maxfevals", 30, "--store", tmp_path / "run.db")
    program = [sys.executable, "-c", "import json; print(json.loads(input())[0])"]
    status, _, err = run(capsys, "resume", tmp_path / "run.db", "--maxfevals", 42, "--command", *program)
    assert status == 1
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith(f"sublevel: {tmp_path / 'run.db'}: the objective now returns")


def test_runs_are_listed(capsys, tmp_path):
    assert "no stored runs" in run(capsys, "runs", tmp_path)[1]
    sl.minimize(lambda x: np.sum(x**2), np.ones(3), 0.3, rng=1, store=tmp_path / "good.db")
    sl.minimize(
        lambda x: np.sum(x**2), np.ones(3), 0.3, rng=1, maxfevals=30, method=sl.ngd(), store=tmp_path / "own.db"
    )
    (tmp_path / "notes.txt").write_text("not ours")
    (tmp_path / "folder.db").mkdir()
    status, out, _ = run(capsys, "runs", tmp_path)
    assert status == 0
    lines = out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["good.db", "own.db"]
    assert re.search(r"cma, 3 variables, \d+ evaluations, best .*, tolx$", lines[0])
    assert "own method, 3 variables, 30 evaluations" in lines[1]
    data = bytearray((tmp_path / "own.db").read_bytes())
    (tmp_path / "bad.db").write_bytes(data[: len(data) // 2])
    status, out, _ = run(capsys, "runs", tmp_path)
    assert status == 1
    assert "bad.db cannot be used and may be damaged" in out
    assert run(capsys, "runs", tmp_path / "nosuch")[0] == 2


def test_a_run_is_shown(capsys, tmp_path):
    result = sl.minimize(lambda x: np.sum(x**2), np.ones(3), 0.3, rng=1, store=tmp_path / "run.db")
    status, out, _ = run(capsys, "show", tmp_path / "run.db")
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert status == 0
    assert lines["fun"].split()[1] == repr(result.fun)
    assert fingerprint(tmp_path / "run.db") in lines["sha256"]
    assert "converged" in lines["state"]
    for command in ("show", "watch", "report", "resume"):
        status, _, err = run(capsys, command, tmp_path / "nosuch.db")
        assert status == 2
        assert "nosuch.db" in err


def test_a_run_is_watched_while_it_goes_on(tmp_path):
    file, watched, go_on = tmp_path / "run.db", [], threading.Event()

    def fun(x):
        if len(watched) == 0 and file.exists() and not watching.is_alive() and not go_on.is_set():
            watching.start()
        time.sleep(0.004)
        return float(np.sum(x**2))

    def watch():
        code = "import sys; from sublevel.cli.main import main; sys.exit(main(sys.argv[1:]))"
        done = subprocess.run([sys.executable, "-c", code, "watch", str(file)], capture_output=True, text=True)
        watched.append(done)
        go_on.set()

    watching = threading.Thread(target=watch)
    sl.minimize(fun, np.ones(3), 0.3, rng=1, maxfevals=800, ftarget=-1.0, store=file)
    watching.join()
    lines = watched[0].stdout.splitlines()
    assert watched[0].returncode == 0, watched[0].stderr
    counts = [int(line.split()[0]) for line in lines]
    assert len(counts) > 1
    assert counts == sorted(counts)
    assert lines[0].endswith("running")
    assert lines[-1].endswith("tolx") or lines[-1].endswith("maxfevals")
    assert counts[-1] == sl.load(file).values.size


def test_watching_a_run_that_was_killed_ends_at_once(tmp_path, capsys):
    file = tmp_path / "run.db"
    sl.minimize(lambda x: np.sum(x**2), np.ones(3), 0.3, rng=1, maxfevals=30, store=file)
    forged_part("ending", facts=lambda facts: {"reasons": {}, "time": 0.0})(file)
    status, out, _ = run(capsys, "watch", file)
    assert status == 0
    assert out.rstrip().endswith("killed")
    assert "killed; continue with `sublevel resume`" in run(capsys, "show", file)[1]


def test_evaluations_are_exported(tmp_path, capsys):
    sl.minimize(lambda x: np.sum(x**2), np.ones(3), 0.3, rng=1, maxfevals=30, store=tmp_path / "run.db")
    assert run(capsys, "export", tmp_path / "run.db", tmp_path / "run.csv")[0] == 0
    assert len((tmp_path / "run.csv").read_text().splitlines()) == 31  # the names and all evaluations
    for wrong in ("run.csv", "run.txt", "nosuch/run.csv"):
        assert run(capsys, "export", tmp_path / "run.db", tmp_path / wrong)[0] == 2


# The page

LOOK = """<script>addEventListener("load", () => { document.title = JSON.stringify({
    pictures: [...document.images].map(image => image.naturalWidth),
    facts: [...document.querySelectorAll("#facts td")].map(cell => cell.innerText),
    variables: document.querySelectorAll("#variables tr").length - 1,
    runs: document.querySelectorAll("#runs tr").length - 1,
    scripts: document.scripts.length,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    fetched: performance.getEntriesByType("resource").filter(entry => !entry.name.startsWith("data:")).length,
    executed: window.executed || 0,
}) })</script>"""
EVIL = "<script>window.executed = 1</script><img src=x onerror='window.executed = 2'>"


def seen(page, profile, policy):
    """What a browser sees of a page, with or without its own policy, which forbids our script too."""
    text = page.read_text(encoding="utf-8").replace("</body>", f"{LOOK}</body>")
    text = text if policy else re.sub(r"<meta http-equiv[^>]*>", "", text)
    page.write_text(text, encoding="utf-8")
    command = [
        BROWSER,
        *FLAGS,
        f"--user-data-dir={profile}",
        "--virtual-time-budget=10000",
        "--dump-dom",
        page.as_uri(),
    ]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    return html.unescape(re.search(r"<title>(.*?)</title>", dom, re.DOTALL)[1])


@pytest.mark.skipif(BROWSER is None, reason="no browser found")
def test_the_report_opens_in_a_browser_and_runs_nothing(tmp_path, capsys):
    file = tmp_path / "run.db"
    evil = {"command": [EVIL], "timeout": None}
    result = sl.minimize(
        lambda x: np.floor(4 * np.sum(x**2)),
        np.ones(3),
        0.5,
        rng=1,
        restarts=2,
        maxfevals=600,
        store=Target(file, evil),
    )
    status, out, _ = run(capsys, "report", file, "--out", tmp_path / "page.html")
    assert status == 0
    assert str(tmp_path / "page.html") in out
    assert "<script" not in (tmp_path / "page.html").read_text(encoding="utf-8")
    page = json.loads(seen(tmp_path / "page.html", tmp_path / "profile", policy=False))
    assert len(page["pictures"]) == 5
    assert min(page["pictures"]) > 0
    assert "<script>window.executed = 1</script>" in page["facts"][1]
    assert repr(result.fun) in page["facts"]
    assert page["variables"] == 3
    assert page["runs"] == result.restarts + 1
    assert (page["scripts"], page["overflow"], page["fetched"], page["executed"]) == (1, 0, 0, 0)


@pytest.mark.skipif(BROWSER is None, reason="no browser found")
@pytest.mark.slow
def test_the_pages_policy_forbids_scripts(tmp_path, capsys):
    """The negative control of what escaping does: even a script that were in the page would not run."""
    sl.minimize(lambda x: np.sum(x**2), np.ones(3), 0.3, rng=1, maxfevals=30, store=tmp_path / "run.db")
    run(capsys, "report", tmp_path / "run.db")
    assert seen(tmp_path / "run.html", tmp_path / "profile", policy=True) == "run.db"


def test_a_report_of_a_run_with_a_surrogate_has_a_picture_of_its_model(tmp_path, capsys):
    file = tmp_path / "run.db"
    sl.minimize(lambda x: float(np.sum(x**2)), np.ones(3), 0.3, rng=1, maxfevals=100, surrogate=True, store=file)
    assert run(capsys, "report", file)[0] == 0
    assert "Agreement of the model" in (tmp_path / "run.html").read_text(encoding="utf-8")


def test_a_report_can_be_written_before_the_first_generation_is_over(tmp_path, capsys):
    def fun(x):
        raise KeyboardInterrupt

    sl.minimize(fun, np.ones(3), 0.3, rng=1, store=tmp_path / "run.db")
    assert run(capsys, "report", tmp_path / "run.db")[0] == 0
    assert run(capsys, "report", tmp_path / "run.db", "--out", tmp_path / "nosuch" / "page.html")[0] == 2
    assert run(capsys, "watch", tmp_path / "run.db")[1].startswith("0 evaluations")
    assert os.path.exists(tmp_path / "run.html")
