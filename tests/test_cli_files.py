"""Files that the command line writes and meets: runs are never overwritten, links not followed, pipes not opened,
streams may be closed.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import sublevel as sl
from sublevel.cli.main import main
from sublevel.store.errors import StoreError
from sublevel.store.export import plain_cell
from sublevel.store.output import write_output


def sphere(x):
    return float(np.sum(x**2))


def run(capsys, *arguments):
    """Exit status, what was printed, and what was complained of."""
    status = main([*map(str, arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def stored(file):
    """A stored run, and its bytes."""
    sl.minimize(sphere, np.ones(2), 0.3, rng=1, maxfevals=12, store=file)
    return file, file.read_bytes()


# ---------------------------------------------------------------------------------------------------- what is written


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_stored_run_is_never_overwritten(tmp_path, capsys, force):
    file, data = stored(tmp_path / "a.db")
    page, page_data = stored(tmp_path / "run.html")
    table, table_data = stored(tmp_path / "run.csv")
    for words in (
        ["report", file, "--out", file],
        ["report", page],
        ["report", file, "--out", page],
        ["export", file, table],
    ):
        status, _, err = run(capsys, *words, *force)
        assert (status, "belongs to a stored run, which is never overwritten" in err) == (2, True)
    with pytest.raises(StoreError, match="never overwritten"):
        sl.load(table).export(table)
    assert [path.read_bytes() for path in (file, page, table)] == [data, page_data, table_data]


@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
def test_what_belongs_to_a_run_is_not_overwritten(tmp_path, end):
    file, _ = stored(tmp_path / "a.db")
    for path in (file.with_name(file.name + end), tmp_path / end):
        if path.name != end:
            with pytest.raises(StoreError, match="belongs to a stored run"):
                write_output(path, lambda file: file.write_text("x"), force=True)
        else:
            write_output(path, lambda file: file.write_text("x"))
            assert path.read_text() == "x"


@pytest.mark.parametrize("words", [["report", "a.db", "--out", "out.html"], ["export", "a.db", "out.csv"]])
def test_an_existing_file_is_replaced_only_by_force(tmp_path, capsys, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    stored(tmp_path / "a.db")
    out = tmp_path / words[-1]
    out.write_text("mine")
    status, _, err = run(capsys, *words)
    assert (status, out.read_text()) == (2, "mine")
    assert "exists already" in err
    assert "--force" in err
    assert run(capsys, *words, "--force")[0] == 0
    assert len(out.read_text()) > 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db", out.name]


@pytest.mark.parametrize("words", [["report", "a.db", "--out", "link.html"], ["export", "a.db", "link.csv"]])
@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize("exists", [True, False])
def test_a_symbolic_link_is_not_followed(tmp_path, capsys, monkeypatch, words, force, exists):
    monkeypatch.chdir(tmp_path)
    stored(tmp_path / "a.db")
    target, link = tmp_path / "target", tmp_path / words[-1]
    link.symlink_to(target)
    if exists:
        target.write_text("mine")
    status, _, err = run(capsys, *words, *force)
    assert (status, "is a symbolic link, which is not followed" in err) == (2, True)
    assert link.is_symlink()
    assert target.read_text() == "mine" if exists else not target.exists()


def test_a_picture_replaces_neither_a_run_nor_what_a_link_points_to(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file, data = stored(tmp_path / "run.png")
    (tmp_path / "link.png").symlink_to(tmp_path / "target.png")
    (tmp_path / "old.png").write_text("an older picture")
    (tmp_path / "mine.py").write_text("def cost(x): return float(sum(x ** 2))\n")
    words = ["minimize", "mine.py:cost", "--x0", "0,0", "--sigma0", 1, "--maxiter", 2, "--plot"]
    assert "never overwritten" in run(capsys, *words, "run.png")[2]
    assert "not followed" in run(capsys, *words, "link.png")[2]
    assert run(capsys, *words, "old.png")[0] == 0
    assert (tmp_path / "old.png").read_bytes().startswith(b"\x89PNG")
    status, _, err = run(capsys, *words, "both.png", "--store", "both.png")
    assert (status, "--plot and --store" in err) == (2, True)
    assert file.read_bytes() == data


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path):
    def fail(file):
        file.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(StoreError, match="No space left on device"):
        write_output(tmp_path / "out.csv", fail)
    assert not list(tmp_path.iterdir())


def test_files_are_written_where_the_command_was_given(tmp_path, capsys, monkeypatch):
    """Also if the objective changes the working directory."""
    (tmp_path / "start").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "start")
    code = f"import os\ndef cost(x):\n    os.chdir({str(tmp_path / 'elsewhere')!r})\n    return float(sum(x ** 2))\n"
    (tmp_path / "start" / "moves.py").write_text(code)
    words = ["--x0", "0,0", "--sigma0", 1, "--maxiter", 2, "--plot", "run.png", "--store", "run.db"]
    assert run(capsys, "minimize", "moves.py:cost", *words)[0] == 0
    monkeypatch.chdir(tmp_path / "start")
    assert run(capsys, "resume", "run.db", "moves.py:cost", "--maxiter", 4, "--plot", "again.png")[0] == 0
    assert not list((tmp_path / "elsewhere").iterdir())
    assert {"run.db", "run.png", "again.png"} <= {path.name for path in (tmp_path / "start").iterdir()}


@pytest.mark.parametrize("name", ["=1+2", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_name_is_no_formula_in_a_table(name):
    assert plain_cell(name) == f"'{name}"
    assert plain_cell("rate") == "rate"


def test_names_do_no_harm_in_tables_and_pages(tmp_path, capsys):
    file, names = tmp_path / "a.db", ["=cmd|'/C calc'!A0", "<script>alert(1)</script>", "ünïcode, with comma"]
    sl.minimize(sphere, np.ones(3), 0.3, rng=1, maxfevals=14, names=names, store=file)
    assert run(capsys, "export", file, tmp_path / "a.csv")[0] == 0
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as stream:
        assert next(csv.reader(stream))[4:] == ["'=cmd|'/C calc'!A0", *names[1:]]
    assert run(capsys, "report", file)[0] == 0
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


# ---------------------------------------------------------------------------------------------------- what is met


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_only_files_are_looked_into(tmp_path):
    import socket

    stored(tmp_path / "good.db")
    os.mkfifo(tmp_path / "pipe.db")
    (tmp_path / "link.db").symlink_to(tmp_path / "pipe.db")
    (tmp_path / "device.db").symlink_to("/dev/zero")
    (tmp_path / "dangling.db").symlink_to(tmp_path / "nosuch")
    with socket.socket(socket.AF_UNIX) as listener:
        before = os.getcwd()
        os.chdir(tmp_path)  # names of sockets are short
        try:
            listener.bind("socket.db")
        finally:
            os.chdir(before)
        done = subprocess.run(
            [sys.executable, "-m", "sublevel", "runs", str(tmp_path)], capture_output=True, text=True, timeout=30
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["good.db"]


def test_a_run_is_shown_as_json(tmp_path, capsys):
    file, _ = stored(tmp_path / "a.db")
    status, out, _ = run(capsys, "show", file, "--json")
    found = json.loads(out, parse_constant=lambda word: pytest.fail(word))
    result = sl.load(file).result
    assert status == 0
    assert (found["x"], found["fun"], found["nfev"]) == (result.x.tolist(), result.fun, 12)
    assert (found["method"], found["popsize"], found["variables"], found["state"]) == ("cma", 6, 2, "maxfevals")
    assert found.keys() >= {"file", "version", "objective", "reasons", "deviations", "diagnosis", "failures", "sha256"}


# ---------------------------------------------------------------------------------------------------- closed streams

OBJECTIVE = "def cost(x):\n    print('evaluated')\n    return float(sum(x ** 2))\n"


def shell(tmp_path, redirections, command="minimize"):
    """A command whose streams a shell redirects; exit status and what is left on them."""
    (tmp_path / "mine.py").write_text(OBJECTIVE)
    words = {
        "minimize": "minimize mine.py:cost --x0 1,1 --sigma0 0.3 --maxiter 40 --seed 1 --store run.db",
        "show": "show run.db",
        "watch": "watch run.db",
        "wrong": "show nosuch.db",
        "bare": "",
    }[command]
    text = f"set -o pipefail; {sys.executable} -m sublevel {words} {redirections}"
    return subprocess.run(["bash", "-c", text], cwd=tmp_path, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("redirections", ["2>&-", "<&- >&- 2>&-", "| true", "2>&1 | head -c 5 >/dev/null"])
def test_a_run_goes_on_without_streams(tmp_path, redirections):
    done = shell(tmp_path, redirections)
    assert (done.returncode, done.stderr) == (0, "")
    assert sl.load(tmp_path / "run.db").result.nit == 40


@pytest.mark.parametrize(
    ("command", "redirections", "status"), [("show", "| true", 0), ("watch", "| head -1", 0), ("bare", "| true", 0)]
)
def test_a_reader_that_goes_away_is_no_error(tmp_path, command, redirections, status):
    stored(tmp_path / "run.db")
    done = shell(tmp_path, redirections, command)
    assert (done.returncode, done.stderr) == (status, "")


def test_the_exit_status_is_that_of_the_command_without_streams_too(tmp_path):
    assert shell(tmp_path, ">&- 2>&-", "wrong").returncode == 2


@pytest.mark.parametrize("stream", [None, "closed"])
def test_progress_is_not_shown_where_nobody_reads(monkeypatch, stream):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", buffering=1) as pipe:
        monkeypatch.setattr(sys, "stderr", None if stream is None else pipe)
        monkeypatch.setattr("sublevel.run.progress.SELDOM", 0.0)
        assert sl.minimize(sphere, np.ones(2), 0.3, rng=1, maxiter=3, progress=True).nit == 3
        monkeypatch.undo()
        with pytest.raises(BrokenPipeError):
            print("a reader is missed elsewhere", file=pipe)
        os.dup2(os.open(os.devnull, os.O_WRONLY), writer)


def test_watching_ends_with_its_reader_and_the_run_goes_on(tmp_path):
    code = "import time\ndef cost(x):\n    time.sleep(0.02)\n    return float(sum(x ** 2))\n"
    (tmp_path / "slow.py").write_text(code)
    words = [
        "minimize",
        "slow.py:cost",
        "--x0",
        "1,1",
        "--sigma0",
        "0.3",
        "--maxfevals",
        "1e6",
        "--seed",
        "1",
        "--store",
        "run.db",
    ]
    driver = subprocess.Popen([sys.executable, "-m", "sublevel", *words], cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        text = f"until [ -f run.db ]; do sleep 0.05; done; {sys.executable} -m sublevel watch run.db | head -1"
        done = subprocess.run(["bash", "-c", text], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr, driver.poll()) == (0, "", None)
        assert done.stdout.endswith("running\n")
    finally:
        driver.kill()
        driver.wait()


def test_tables_have_their_columns(tmp_path, capsys):
    file, _ = stored(tmp_path / "a.db")
    assert run(capsys, "export", file, tmp_path / "a.csv")[0] == 0
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [*rows[0]] == ["run", "iteration", "index", "value", "x0", "x1"]
    assert [[float(row["x0"]), float(row["x1"])] for row in rows] == sl.load(file).points.tolist()
