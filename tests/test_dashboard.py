"""The dashboard: what it reads, what its server answers and refuses, and the page in a real browser."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import sublevel as sl
from helpers.browser import BROWSER, Browser
from sublevel.cli.main import main
from sublevel.cli.run_status import read_status
from sublevel.dashboard import data, follow, server
from sublevel.dashboard.follow import MOST_BEST, MOST_POINTS, Follower
from sublevel.dashboard.importance import evaluation_importance
from sublevel.dashboard.runs import Runs
from sublevel.dashboard.server import Server
from sublevel.store import recorder, samples
from sublevel.store.errors import StoreError
from sublevel.store.file import File, with_checksum
from sublevel.store.fingerprint import fingerprint

in_browser = pytest.mark.skipif(BROWSER is None, reason="no browser found: install Debian's chromium")


def cost(x):
    return float(np.sum((x - 1) ** 2 * [1, 10, 100]))


def store(file, fun=cost, x0=(0, 0, 0), sigma0=0.5, **settings):
    """A stored run."""
    sl.minimize(fun, x0, sigma0, **({"rng": 1, "maxfevals": 300, "store": file} | settings))
    return file


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return store(tmp_path_factory.mktemp("run") / "run.db", names=["amplitude", "decay rate", "offset"])


@contextlib.contextmanager
def served(*paths, port=0):
    """A server of these files."""
    made = Server(Runs([Path(path) for path in paths]), port)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield made
    finally:
        made.shutdown()
        thread.join()
        made.server_close()


def get(made, path="", method="GET", headers=()):
    """Status, headers and content of an answer; the path is relative to the page."""
    address = urlsplit(made.url)
    with contextlib.closing(http.client.HTTPConnection(address.hostname, address.port, timeout=20)) as connection:
        connection.request(method, path if path.startswith("/") else address.path + path, headers=dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


def update(made, query="run=0"):
    return json.loads(get(made, f"api/update?{query}")[2])


# What is read.


def same_reading(one, other):
    """Whether two readings of a file are equal."""
    for name in ("table", "runs", "sizes", "failed", "feasible", "wide"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for name in ("even", "best", "early", "left"):
        for column in ("index", "values", "points"):
            a, b = (getattr(getattr(reading, name), column) for reading in (one, other))
            np.testing.assert_array_equal(a, b)
    assert (one.count, one.nfev, one.stride) == (other.count, other.nfev, other.stride)
    assert one.failures.counts == other.failures.counts


def flaky(x):
    if x[0] > 1.2:
        raise ValueError("<i>too large</i>")
    return cost(x)


def test_reading_in_steps_is_reading_at_once(tmp_path):
    follower = Follower(store(tmp_path / "run.db", flaky, maxfevals=100, on_error="nan"))
    assert follower.advance(10).count == follower.progress.nfev - len(follower.progress.left.index) == 99
    assert follower.progress.nfev == 100
    for limit in (500, 6000):
        sl.resume(tmp_path / "run.db", flaky, maxfevals=limit)
        follower.advance(0)
    while follower.progress.share_read < 1:
        follower.advance(0)
    assert follower.progress.failures.counts.total() == np.sum(follower.progress.failed) > 0
    same_reading(follower.advance(10), Follower(tmp_path / "run.db").advance(10))


@pytest.mark.parametrize("is_killed", [False, True], ids=["ended", "killed"])
def test_the_pause_before_a_run_is_resumed_is_no_run_time(is_killed, tmp_path, monkeypatch):
    """By a clock on which each evaluation takes a second, and each pause an hour."""
    monkeypatch.setattr(recorder, "WRITING", 1e9)
    file, copy, seconds, calls = tmp_path / "run.db", tmp_path / "copy.db", [1e9], []

    def fun(x):
        if len(calls) == 150:
            for end in ("", "-wal"):
                shutil.copyfile(f"{file}{end}", f"{copy}{end}")
        calls.append(x)
        seconds[0] += 1.0
        return cost(x)

    monkeypatch.setattr(time, "time", lambda: seconds[0])
    store(file, fun, maxfevals=151 if is_killed else 150)
    resumed = copy if is_killed else file
    for maxfevals in (200, 300):
        seconds[0] += 3600
        sl.resume(resumed, fun, maxfevals=maxfevals, check=False)
    last = sl.load(resumed).result.history["nfev"][-1]
    found = data.comparison(0, Follower(resumed).advance(60))["seconds"]
    assert found == sorted(found)
    assert found[-1] == read_status(resumed).seconds
    assert abs(found[-1] - last) <= 7  # of a process that was killed, the time since its last generation is lost
    if not is_killed:
        assert found[-1] == last


@pytest.mark.parametrize("given", [{}, {"constraints": 1}, {"popsize": 400}], ids=str)
def test_points_of_a_generation_that_remained_incomplete_count(tmp_path, given):
    """The values fall from evaluation to evaluation, so that the last one is the best."""
    calls = []

    def fun(x):
        calls.append(x)
        return (-len(calls), [-1.0]) if "constraints" in given else -float(len(calls))

    file = store(tmp_path / "run.db", fun, np.ones(3), 0.5, maxfevals=1207, ftarget=-1e9, tolx=0, **given)
    progress, result = Follower(file).advance(60), sl.load(file).result
    assert len(progress.left.index) > 0
    assert (progress.selection.index[-1], progress.selection.values[-1]) == (1206, -1207.0)
    assert (data.totals(progress)["best"], data.totals(progress)["nfev"]) == (result.fun, result.nfev) == (-1207, 1207)
    np.testing.assert_array_equal(data.best_point(progress), result.x)
    np.testing.assert_array_equal(result.x, calls[-1])


@pytest.mark.parametrize(
    "popsize", [20, 1000, 4000], ids=["stored points", "drawn again, with rows of several generations", "drawn again"]
)
def test_selections_are_evaluations_of_the_run(tmp_path, popsize):
    settings = {"vectorized": True, "popsize": popsize, "maxfevals": 40_000, "ftarget": -1, "restarts": 20}
    file = store(tmp_path / "run.db", lambda X: np.sum(X**2, axis=1), np.ones(3), 0.5, **settings)
    progress, stored = Follower(file).advance(60), sl.load(file)
    assert progress.count == len(stored.values)
    assert len(progress.even.index) <= MOST_POINTS < len(stored.values)
    assert len(progress.best.index) == MOST_BEST
    np.testing.assert_array_equal(progress.best.values, np.sort(stored.values)[:MOST_BEST])
    chosen = progress.selection
    np.testing.assert_array_equal(chosen.values, stored.values[chosen.index])
    np.testing.assert_array_equal(chosen.points, stored.points[chosen.index])
    assert data.totals(progress)["nfev"] == stored.result.nfev
    np.testing.assert_array_equal(data.best_point(progress), stored.result.x)


def test_samples_that_share_a_row_are_read_in_steps_and_at_once(tmp_path, monkeypatch):
    def fails_sometimes(X):
        return np.where(X[:, 0] % 0.1 < 0.005, np.nan, np.sum(X**2, axis=1))

    monkeypatch.setattr(samples, "FAST", 1e3)  # however slow this machine is
    monkeypatch.setattr(follow, "TOGETHER", 100)
    settings = {"vectorized": True, "popsize": 100, "maxfevals": 20_000, "on_error": "nan"}
    file = store(tmp_path / "run.db", fails_sometimes, np.ones(10), 0.5, **settings)
    with contextlib.closing(File(file)) as opened:
        assert max(len(row[5]) // 800 for row in opened.rows("evaluations") if not row[4]) > 1
    follower, stored = Follower(file), sl.load(file)
    while follower.advance(0).share_read < 1:
        pass
    same_reading(follower.progress, Follower(file).advance(60))
    chosen = follower.progress.selection
    np.testing.assert_array_equal(chosen.points, stored.points[chosen.index])
    assert follower.progress.failures.counts == stored.result.failures.counts
    assert np.sum(follower.progress.failed) == np.count_nonzero(np.isnan(stored.values)) > 0


def test_curves_are_thinned_and_keep_the_extremes(tmp_path):
    settings = {"vectorized": True, "maxfevals": 20_000, "ftarget": -1, "restarts": sl.IPOP(50, 1.0)}
    file = store(tmp_path / "run.db", lambda X: np.sum(X**2, axis=1), np.ones(3), 0.5, **settings)
    progress = Follower(file).advance(60)
    curves = data.curves(progress)
    assert len(curves["nfev"]) < data.MOST_ROWS + progress.runs[-1] + 2 < len(progress.table)
    assert min(curves["lowest"]) == pytest.approx(progress.table[:, 2].min(), rel=1e-8)
    assert curves["nfev"][-1] == progress.nfev
    assert sum(curves["evaluated"]) == progress.nfev
    assert curves["best"] == sorted(curves["best"], reverse=True)


def test_both_kinds_of_importance_find_the_variables_that_matter(tmp_path):
    weights = np.array([0.0, 1.0, 30.0, 1000.0])
    settings = {"maxfevals": 1500, "rng": 6}
    file = store(tmp_path / "run.db", lambda x: float(np.sum(weights * x**2)), np.ones(4), 0.5, **settings)
    progress = Follower(file).advance(60)
    by_covariance = data.Variables(progress, data.importance_of(progress).shares, "").by_covariance
    by_evaluations = data.importance_of(progress).shares
    for shares in (by_covariance, by_evaluations):
        assert np.sum(shares) == pytest.approx(1)
        assert shares[3] > 3 * shares[2] > 3 * shares[1]
        assert shares[0] < 0.02
    assert list(np.argsort(by_covariance)) == [0, 1, 2, 3]


def test_importance_sees_choices_and_is_unknown_from_few_points(rng):
    points = np.stack([rng.integers(0, 3, 500), rng.standard_normal(500)], axis=1)
    values = np.array([0.0, 5.0, 1.0])[points[:, 0].astype(int)] + 0.1 * points[:, 1]
    none, discrete = np.zeros(2, dtype=bool), np.array([True, False])
    assert evaluation_importance(points, values, none, discrete)[0] > 0.8
    assert np.isnan(evaluation_importance(points[:10], values[:10], none, discrete)).all()


def test_spaces_and_constraints_are_shown_by_name(tmp_path):
    parameters = {"rate": sl.Real(1e-3, 1, log=True), "depth": sl.Integer(1, 9), "kernel": sl.Choice("rbf", "poly")}
    settings = {"rng": 1, "maxfevals": 150, "constraints": 1}
    sl.minimize(
        lambda p: ((p["rate"] - 0.1) ** 2 + p["depth"] + (p["kernel"] == "poly"), 3 - p["depth"]),
        sl.Space(parameters),
        store=tmp_path / "run.db",
        **settings,
    )
    with served(tmp_path / "run.db") as made:
        found = update(made)["run"]
    kinds = {row["name"]: row["kind"] for row in found["variables"]["rows"]}
    assert kinds == {"rate": "log", "depth": "discrete", "kernel": "discrete"}
    assert [one["labels"] for one in found["variables"]["shown"]] == [None, None, ["rbf", "poly"]]
    assert [row["best"] for row in found["variables"]["rows"][1:]] == ["3", "rbf"]
    assert len(found["constraints"]) == 1
    assert found["constraints"][0]["violation"] == 0
    assert 0 < sum(found["curves"]["feasible"]) < sum(found["curves"]["evaluated"])


def noisy(x, rng=None):
    return cost(x) + (rng or NOISE).normal(0, 0.5)


NOISE = np.random.default_rng(1)


def test_a_noisy_run_has_its_answer_and_no_lucky_value(tmp_path):
    file = store(tmp_path / "run.db", noisy, noise=True, restarts=2, maxfevals=1500)
    result = sl.load(file).result
    with served(file) as made:
        answer = update(made)
    found = answer["run"]
    assert found["totals"]["best"] == answer["runs"][0]["best"] == pytest.approx(result.fun, rel=1e-10)
    assert found["totals"]["error"] == pytest.approx(result.fun_error, rel=1e-2)
    assert found["totals"]["nfev"] == answer["runs"][0]["nfev"] == result.nfev
    shown = [float(row["best"]) for row in found["variables"]["rows"]]
    assert shown == pytest.approx(result.x.tolist(), rel=1e-6)
    assert result.fun > sl.load(file).values.min() + 0.5
    assert min(one["best"] for one in found["restarts"]) > sl.load(file).values.min() + 0.5


def test_a_noisy_run_that_goes_on_has_no_lucky_value_either(tmp_path):
    def interrupted(x, rng=np.random.default_rng(1)):  # noqa: B008
        if next(calls) > 200:
            raise KeyboardInterrupt
        return noisy(x, rng)

    calls = iter(range(10**6))
    file = store(tmp_path / "run.db", interrupted, noise=True)
    progress = Follower(file).advance(10)
    np.testing.assert_array_equal(data.best_point(progress), progress.position.state.best.x)
    assert data.totals(progress)["best"] > sl.load(file).values.min() + 0.5


def test_a_run_with_a_surrogate_has_its_agreement_and_its_sample_size(tmp_path):
    file = store(tmp_path / "run.db", surrogate=True)
    with served(file) as made:
        found = update(made)["run"]
    known = [one for one in found["curves"]["agreement"] if one is not None]
    assert known
    assert all(-1 <= one <= 1 for one in known)
    assert str(found["restarts"][0]["popsize"]) == found["facts"]["points per generation"]
    assert found["restarts"][0]["popsize"] > max(np.diff(found["curves"]["nfev"])[3:].min(), 1)
    assert found["facts"]["surrogate"]


def test_a_file_is_read_and_never_changed(run):
    def state():
        return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in run.parent.iterdir()}

    before = state()
    with served(run) as made:
        for _ in range(3):
            update(made, "run=0&compare=0")
        get(made, "api/runs/0/evaluations.csv")
        get(made, "api/runs/0/run.json")
    assert state() == before


def test_a_running_store_is_not_disturbed(tmp_path):
    def slow(x):
        time.sleep(0.001)
        return cost(x)

    plain = store(tmp_path / "plain.db", slow, maxfevals=300)
    writer = threading.Thread(target=store, args=(tmp_path / "run.db", slow), kwargs={"maxfevals": 300})
    writer.start()
    while not (tmp_path / "run.db").exists():
        time.sleep(0.001)
    seen = set()
    with served(tmp_path / "run.db") as made:
        while writer.is_alive():
            found = update(made, "run=0&compare=0")["run"]
            assert "error" not in found, found
            seen.add(found["totals"]["nfev"])
            time.sleep(0.01)
        writer.join()
        final = update(made)["run"]
    assert len(seen) > 5
    assert final["state"] == "maxfevals"
    assert final["totals"]["nfev"] == sl.load(plain).result.nfev
    assert fingerprint(tmp_path / "run.db") == fingerprint(plain)


@pytest.mark.parametrize("evaluations", [0, 1, 5])
def test_a_run_without_a_finished_generation_is_shown(tmp_path, evaluations):
    values = []

    def fun(x):
        if len(values) == evaluations:
            raise KeyboardInterrupt
        values.append(cost(x))
        return values[-1]

    store(tmp_path / "run.db", fun)
    with served(tmp_path / "run.db") as made:
        found = update(made, "run=0&compare=0")
    assert found["run"]["totals"]["nfev"] == found["runs"][0]["nfev"] == evaluations
    assert found["run"]["totals"]["best"] == (pytest.approx(min(values)) if values else None)
    assert found["comparison"][0]["best"] == found["run"]["restarts"] == []


def test_damaged_and_deleted_files_are_named_and_the_others_are_shown(run, tmp_path):
    for name in ("a.db", "b.db", "c.db"):
        shutil.copy(run, tmp_path / name)
    text = bytearray((tmp_path / "b.db").read_bytes())
    with served(tmp_path) as made:
        assert [one["name"] for one in update(made)["runs"]] == ["a.db", "b.db", "c.db"]
        text[4096:] = b"x" * (len(text) - 4096)
        (tmp_path / "b.db").write_bytes(text)
        (tmp_path / "c.db").unlink()
        shutil.copy(run, tmp_path / "d.db")
        found = update(made, "run=1&compare=0,1,2,3")
        assert [one["name"] for one in found["runs"]] == ["a.db", "b.db", "c.db", "d.db"]
        assert ["error" in one for one in found["runs"]] == [False, True, True, False]
        assert "damaged" in found["run"]["error"] or "malformed" in found["run"]["error"]
        assert [one["id"] for one in found["comparison"]] == [0, 3]
        assert get(made, "api/runs/2/evaluations.csv")[0] == 500


def test_what_was_seen_is_not_sent_again(run):
    with served(run) as made:
        while (found := update(made)["run"])["read"] < 1:
            pass
        again = json.loads(get(made, f"api/update?run=0&seen={found['version'].replace(' ', '+')}")[2])["run"]
        assert set(again) == {"id", "version"}
        few = update(made, "run=0&filter=RATE")["run"]["variables"]
    assert [row["name"] for row in few["rows"]] == ["decay rate"]
    assert (few["matching"], few["count"]) == (1, 3)


# What the server answers.


def test_it_listens_on_the_loopback_interface_only(run):
    with served(run) as made:
        host, port = made.socket.getsockname()
        assert host == "127.0.0.1"
        lines = Path("/proc/net/tcp").read_text().splitlines() + Path("/proc/net/tcp6").read_text().splitlines()
        local = [line.split()[1] for line in lines[1:] if line.split()[3] == "0A"]
        assert [address for address in local if address.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"]
        with pytest.raises(OSError, match=r"refused|not available|unreachable"):
            socket.create_connection(("::1", port), timeout=2)


def test_every_answer_has_the_headers_that_protect_it(run):
    with served(run) as made:
        paths = ("", "app.js", "charts.js", "style.css", "icon.svg", "api/update", "api/runs/0/run.json", "none", "/")
        for path in paths:
            status, headers, _ = get(made, path)
            assert status == (404 if path in ("none", "/") else 200), path
            policy = headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Cache-Control"] == "no-store"
            assert headers["Referrer-Policy"] == "no-referrer"
            assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:{port}"},
        {"Host": "127.0.0.1.evil.example:{port}"},
        {"Host": "127.0.0.1"},
        {"Host": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
    ids=str,
)
def test_names_that_were_rebound_and_other_pages_are_refused(run, headers):
    with served(run) as made:
        given = {name: text.format(port=made.server_port) for name, text in headers.items()}
        for path in ("", "api/update", "app.js"):
            status, _, content = get(made, path, headers=given)
            assert status == 403
            assert b"run.db" not in content
        assert get(made, headers={"Host": f"localhost:{made.server_port}"})[0] == 200


def test_nothing_is_served_without_the_token_and_nothing_from_the_disk(run):
    with served(run) as made:
        token = made.site.token
        paths = [
            *("/", "/index.html", "/api/update", f"/{token}", f"/{token[:-1]}/", f"/{token}x/api/update", "//", "*"),
            *(f"/{token}/../{run}", f"/{token}//etc/passwd", f"/{token}/%2e%2e/run.db", f"/{token}/{run}"),
            *(f"/{token}/api/runs/{n}/run.json" for n in ("1", "-1", "0x0", "%D9%A0", "..", "9999999", "")),
            *(f"/{token}/api/runs/0/{name}" for name in ("run.db", "", "../run.json", "evaluations.csv/")),
        ]
        for path in paths:
            status, _, content = get(made, f"/{path.removeprefix('/')}")
            assert status == 404, path
            assert content.decode() == server.WRONG_ADDRESS


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "NONSENSE"])
def test_only_get_is_allowed(run, method):
    with served(run) as made:
        assert get(made, method=method)[0] == (501 if method == "NONSENSE" else 405)


def test_odd_requests_are_refused_quietly(run, capfd):
    with served(run) as made:
        requests = [b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01", b"GET /" + b"x" * 10**5]
        for request in requests:
            connection = socket.create_connection(("127.0.0.1", made.server_port), timeout=5)
            with connection, contextlib.suppress(OSError):  # the server may close it first
                connection.sendall(request)
                connection.shutdown(socket.SHUT_WR)
                assert b"xxxx" not in connection.recv(10_000)
        for query in ("run=x&compare=a,b,-1", "run=0&filter=" + "%00" * 300, "compare=" + "0," * 1000, "seen=%F0%28"):
            assert "runs" in update(made, query)
    assert capfd.readouterr() == ("", "")


def test_addresses_that_are_none_are_refused_quietly(run, capfd):
    with served(run) as made:
        for path in ("*", "http://[::1/", "//[/", "?", f"/{made.site.token}"):
            with socket.create_connection(("127.0.0.1", made.server_port), timeout=20) as connection:
                host = f"Host: 127.0.0.1:{made.server_port}"
                connection.sendall(f"GET {path} HTTP/1.1\r\n{host}\r\nConnection: close\r\n\r\n".encode())
                assert connection.makefile("rb").read().endswith(server.WRONG_ADDRESS.encode())
    assert capfd.readouterr() == ("", "")


def test_connections_that_are_reset_print_nothing(run, capfd):
    with served(run) as made:
        for request in (b"GET /", b"POST / HTTP/1.1\r\n\r\n" * 1000):
            with socket.create_connection(("127.0.0.1", made.server_port), timeout=20) as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close by a reset
                connection.sendall(request)
        while made.connections:
            time.sleep(0.01)
    assert capfd.readouterr() == ("", "")


def test_many_connections_neither_accumulate_nor_keep_others_out(run, monkeypatch):
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 5)
    with served(run) as made, contextlib.ExitStack() as stack:
        address = "127.0.0.1", made.server_port
        idle = [stack.enter_context(socket.create_connection(address, timeout=20)) for _ in range(30)]
        assert get(made)[0] == 200
        assert made.connections <= 5
        assert idle[0].recv(1) == b""  # the oldest ones were ended


def test_names_of_files_need_not_be_utf8(run, tmp_path, capfd):
    file = tmp_path / os.fsdecode(b"\xff.db")
    shutil.copyfile(run, file)
    with served(tmp_path) as made:
        status, headers, content = get(made, "api/runs/0/run.json")
        assert (status, headers["Content-Disposition"]) == (200, "attachment; filename*=UTF-8''%3F.json")
        assert json.loads(content)["nfev"] == sl.load(file).result.nfev
        os.truncate(file, 5000)
        assert b"damaged" in get(made, "api/runs/0/evaluations.csv")[2]
    assert capfd.readouterr() == ("", "")


def test_a_pipe_in_place_of_a_file_is_not_waited_for(run, tmp_path):
    for name in ("a.db", "b.db"):
        shutil.copyfile(run, tmp_path / name)
    with served(tmp_path) as made:
        assert "error" not in update(made)["runs"][0]
        (tmp_path / "a.db").unlink()
        os.mkfifo(tmp_path / "a.db")
        found = update(made)
    assert "is not a file" in found["runs"][0]["error"]
    assert "is not a file" in found["run"]["error"]
    assert "error" not in found["runs"][1]


def test_sizes_that_contradict_the_evaluations_are_named_and_the_others_are_shown(run, tmp_path):
    for name in ("a.db", "b.db"):
        shutil.copyfile(run, tmp_path / name)
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        row = list(connection.execute("SELECT * FROM generations").fetchone())
        row[2] = 1
        connection.execute("REPLACE INTO generations VALUES (?, ?, ?, ?, ?, ?)", with_checksum(*row[:-1]))
        connection.commit()
    with served(tmp_path) as made:
        found = update(made)
    assert "inconsistent" in found["run"]["error"]
    assert "error" not in found["runs"][1]


def test_downloads_have_all_evaluations_and_the_result(run):
    stored = sl.load(run)
    with served(run) as made:
        _, headers, content = get(made, "api/runs/0/evaluations.csv")
        result = json.loads(get(made, "api/runs/0/run.json")[2])
    assert headers["Content-Disposition"] == "attachment; filename*=UTF-8''run.csv"
    rows = list(csv.reader(content.decode().splitlines()))
    assert rows[0] == ["run", "iteration", "index", "value", "amplitude", "decay rate", "offset"]
    assert [float(row[3]) for row in rows[1:]] == stored.values.tolist()
    stored.export(run.with_name("out.csv"))
    assert run.with_name("out.csv").read_bytes() == content
    run.with_name("out.csv").unlink()
    assert result["fun"] == stored.result.fun
    assert result["history"]["best"] == stored.result.history["best"].tolist()


# The command.


def test_wrong_usage_is_explained(run, tmp_path, capsys):
    (tmp_path / "text.db").write_text("hello")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        cases = {
            "there is no file": [str(tmp_path / "none.db")],
            "not a stored run": [str(tmp_path / "text.db")],
            f"port {port} is in use": [str(run), "--port", port],
        }
        for message, arguments in cases.items():
            assert main(["dashboard", *arguments, "--no-browser"]) == 2
            assert message in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["dashboard", str(run), "--port", "70000"])
    assert "expected a port from 0 to 65535" in capsys.readouterr().err


def test_the_command_prints_its_address_and_ends_quietly(run):
    code = "from sublevel.cli.main import main; raise SystemExit(main())"
    command = [sys.executable, "-c", code, "dashboard", str(run), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        address = urlsplit(re.fullmatch(r"dashboard: (\S+)\n", process.stdout.readline())[1])
        with contextlib.closing(http.client.HTTPConnection(address.hostname, address.port)) as connection:
            connection.request("GET", f"{address.path}api/update")
            assert json.loads(connection.getresponse().read())["runs"][0]["name"] == "run.db"
        assert process.stdout.readline() == "Ctrl-C ends the dashboard, not the runs.\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "\n", "")


def test_the_browser_is_opened_unless_it_is_not_wanted(run, monkeypatch, capsys):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(Server, "serve_forever", lambda self, poll_interval: (_ for _ in ()).throw(KeyboardInterrupt))
    assert main(["dashboard", str(run)]) == 0
    assert f"dashboard: {opened[0]}\n" in capsys.readouterr().out
    assert main(["dashboard", str(run), "--no-browser"]) == 0
    assert len(opened) == 1


# The page.


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


def opened(browser, made, **size):
    """A page that has been drawn."""
    page = browser.page(**size)
    page.open(made.url)
    page.wait("document.body?.dataset.ready && document.getElementById('reading').className === 'done'")
    return page


def text(page, name):
    return page.run(f"document.getElementById({name!r}).textContent")


@in_browser
@pytest.mark.parametrize("size", [{"width": 1200}, {"width": 390, "dark": True}], ids=["desktop", "phone"])
def test_the_page_shows_a_run(browser, run, size):
    result = sl.load(run).result
    with served(run) as made:
        page = opened(browser, made, **size)
        assert text(page, "name") == "run.db"
        assert text(page, "tile-nfev") == str(result.nfev)
        assert float(text(page, "tile-best")) == pytest.approx(result.fun, rel=1e-4)
        drawn = page.run(
            "Object.fromEntries([...document.querySelectorAll('figure:not([hidden])')].map(figure => [figure.id || "
            "figure.querySelector('h3').textContent, figure.querySelectorAll('svg path').length]))"
        )
        drawn.pop("chart-compare")
        assert set(drawn) >= {"chart-values", "chart-axes", "chart-parallel", "amplitude", "decay rate", "offset"}
        assert min(drawn.values()) > 0
        assert page.run("[...document.querySelectorAll('svg')].every(svg => svg.getAttribute('aria-label'))")
        assert page.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        own = made.url.rpartition("/")[0]
        assert page.run(f"performance.getEntriesByType('resource').every(one => one.name.startsWith({own!r}))")
        background = page.run("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(14, 17, 22)" if size.get("dark") else "rgb(244, 245, 247)")
        assert page.complaints() == []


def constrained(x):
    return float(np.sum((x - 2) ** 2)), [x[0] + x[1] - 2]


KINDS = {
    "plain": (cost, {}),
    "surrogate": (cost, {"surrogate": True}),
    "constraints": (constrained, {"constraints": 1, "maxfevals": 600}),
    "noise": (noisy, {"noise": True}),
    "failures": (flaky, {"on_error": "nan"}),
}


@in_browser
@pytest.mark.parametrize("kind", KINDS)
def test_the_page_shows_what_only_some_runs_have(browser, kind, tmp_path):
    fun, settings = KINDS[kind]
    file = store(tmp_path / "run.db", fun, **settings)
    with served(file) as made:
        page = opened(browser, made)
        shown = page.run(
            "['violation', 'agreement', 'failed'].filter(name => !document.getElementById(`chart-${name}`).hidden "
            "&& document.querySelectorAll(`#chart-${name} svg path`).length)"
        )
        assert shown == {"constraints": ["violation"], "surrogate": ["agreement"], "failures": ["failed"]}.get(kind, [])
        assert ("±" in text(page, "tile-best")) == (kind == "noise")
        # The best sixth is drawn on top, and the best point is where its value is.
        assert page.run("document.querySelectorAll('#chart-parallel .strand.top').length") == 1
        dots, mark = page.run(
            "(({points, top}) => [points, top])({"
            "points: document.querySelector('#slices .dots.s5').getAttribute('d').match(/ [0-9.]+h/g).map(parseFloat), "
            "top: Number(document.querySelector('#slices .mark').getAttribute('cy'))})"
        )
        assert min(dots) - 3 < mark < max(dots) + 3
        assert page.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert page.complaints() == []


@in_browser
def test_the_page_shows_a_space(browser, tmp_path):
    space = sl.Space(rate=sl.Real(1e-3, 1, log=True), depth=sl.Integer(1, 9), kernel=sl.Choice("rbf", "poly"))

    def tuned(p):
        return (np.log10(p["rate"]) + 1) ** 2 + abs(p["depth"] - 3) + (p["kernel"] == "rbf")

    file = tmp_path / "run.db"
    sl.minimize(tuned, space, rng=1, maxfevals=300, store=file)
    with served(file) as made:
        page = opened(browser, made)
        rows = page.run(
            "[...document.querySelectorAll('#variables tbody tr')].map(row => [0, 2].map(i => "
            "row.cells[i].textContent))"
        )
        assert [row[0] for row in rows] == ["rate", "depth", "kernel"]
        assert [row[1] for row in rows[1:]] == ["3", "poly"]
        labels = page.run("[...document.querySelectorAll('#chart-parallel text')].map(one => one.textContent)")
        assert {"rbf", "poly"} <= set(labels)
        assert page.run("document.querySelectorAll('#slices figure').length") == 3
        assert page.complaints() == []


@in_browser
def test_the_page_follows_a_run_while_it_writes(browser, tmp_path):
    goes_on = threading.Event()

    def slow(x):
        time.sleep(0.002)
        if len(values) > 150:
            goes_on.wait(30)
        values.append(cost(x))
        return values[-1]

    values = []
    writer = threading.Thread(target=store, args=(tmp_path / "run.db", slow), kwargs={"maxfevals": 400})
    writer.start()
    while not (tmp_path / "run.db").exists():
        time.sleep(0.001)
    with served(tmp_path / "run.db") as made:
        page = opened(browser, made)
        page.wait("document.body.dataset.nfev === '151'")  # with those of the unfinished generation
        assert text(page, "live-text") == "running"
        assert float(text(page, "tile-best")) == float(f"{min(values):.6g}")
        before = page.run("scrollY + document.getElementById('chart-parallel').getBoundingClientRect().top")
        goes_on.set()
        page.wait("Number(document.body.dataset.nfev) > 390")
        page.wait("document.getElementById('live-text').textContent === 'maxfevals'")
        after = page.run("scrollY + document.getElementById('chart-parallel').getBoundingClientRect().top")
        writer.join()
        assert after == before
        assert page.complaints() == []


@in_browser
def test_the_page_filters_variables_and_evaluations(browser, run):
    rows = "[...document.querySelectorAll('#variables tbody tr')].map(row => row.cells[0].textContent)"
    drawn = "Number(document.getElementById('selected').textContent.split(' of ')[0])"
    with served(run) as made:
        page = opened(browser, made)
        count = page.run(drawn)
        page.run("document.getElementById('filter').focus()")
        page.send("Input.insertText", text="off")
        page.wait(f"JSON.stringify({rows}) === '[\"offset\"]'")
        page.wait("document.querySelectorAll('#slices figure').length === 1")
        box = "document.getElementById('filter')"
        page.run(f"{box}.value = ''; {box}.dispatchEvent(new Event('input'))")
        page.wait(f"{rows}.length === 3 && document.querySelectorAll('#slices figure').length === 3")
        page.run(
            "const best = document.getElementById('share'); best.value = 25; best.dispatchEvent(new Event('input'))"
        )
        assert page.run(drawn) == pytest.approx(count / 4, abs=1)
        page.run("document.getElementById('clear').click()")
        assert page.run(drawn) == count
        handle = "document.querySelector('[data-axis=value]')"
        page.run(f"{handle}.scrollIntoView({{block: 'center'}})")
        box = page.run(f"(({{x, y, width, height}}) => ({{x, y, width, height}}))({handle}.getBoundingClientRect())")
        x = box["x"] + box["width"] / 2
        page.drag((x, box["y"] + 0.5 * box["height"]), (x, box["y"] + box["height"] - 1))
        assert 0 < page.run(drawn) < count
        assert page.run("document.querySelectorAll('.brush').length") == 1
        page.run("document.getElementById('clear').click()")
        assert page.run(drawn) == count
        assert page.complaints() == []


@in_browser
def test_the_page_compares_runs(browser, run, tmp_path):
    shutil.copy(run, tmp_path / "a.db")
    store(tmp_path / "b.db", rng=2)
    with served(tmp_path) as made:
        page = opened(browser, made)
        page.wait("document.querySelectorAll('#chart-compare path').length === 2")
        page.run("document.querySelectorAll('#runs button')[1].click()")
        page.wait("document.getElementById('name').textContent === 'b.db'")
        page.run("document.querySelectorAll('#runs input')[0].click()")
        page.wait("document.querySelectorAll('#chart-compare path').length === 1")
        shutil.copy(run, tmp_path / "c.db")
        page.wait("document.querySelectorAll('#runs tbody tr').length === 3")
        assert page.complaints() == []


@in_browser
def test_the_page_downloads_csv_json_and_html(browser, run, tmp_path):
    def wait_for(name):
        until = time.monotonic() + 20
        while not (tmp_path / name).exists():
            assert time.monotonic() < until, name
            time.sleep(0.02)
        return (tmp_path / name).read_text(encoding="utf-8")

    with served(run) as made:
        page = opened(browser, made)
        page.allow_downloads(tmp_path)
        for name in ("csv", "json", "html"):
            page.run(f"document.getElementById({name!r}).click()")
            wait_for(f"run.{name}")
        assert len(wait_for("run.csv").splitlines()) == len(sl.load(run).values) + 1
        assert json.loads(wait_for("run.json"))["fun"] == sl.load(run).result.fun
        saved = wait_for("run.html")
        assert page.complaints() == []
    assert "<script" not in saved
    assert made.site.token not in saved
    assert "default-src 'none'" in saved
    copy = browser.page()
    copy.open((tmp_path / "run.html").as_uri())
    copy.wait("document.querySelectorAll('svg path').length > 10")
    assert copy.run("getComputedStyle(document.querySelector('.tiles')).display") == "grid"
    assert copy.complaints() == []


ATTACKS = [
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "<svg onload=window.hacked=1>",
    '"><script>window.hacked = 1</script>',
    "'-alert(1)-'",
    "javascript:window.hacked=1",
    "</title><script>window.hacked = 1</script>",
    "]]><script>window.hacked = 1</script>",
    "<iframe srcdoc='<script>parent.hacked = 1</script>'>",
    "${window.hacked = 1}",
    "{{constructor.constructor('window.hacked = 1')()}}",
    "__proto__",
    "constructor",
    "toString",
    "\u202egnp.exe",
    "𝕏" * 30,
    "a" * 90,
    "<style>*{display:none}</style>",
    "&lt;script&gt;window.hacked=1&lt;/script&gt;",
    "%3Cscript%3Ewindow.hacked=1%3C/script%3E",
]
LABELS = [f"{label} {number}" if number else label for number in range(5) for label in ATTACKS]


@in_browser
def test_hostile_labels_are_texts(browser, tmp_path):
    """100 names of variables, choices, failures and a file name that browsers would execute as markup."""
    names = [label for label in LABELS if label.isprintable()]
    names += [f"<b>{number}</b>" for number in range(100 - len(names))]
    assert len(set(names)) == 100

    def fun(parameters):
        values = list(parameters.values())
        if values[0] > 0.5:
            raise ValueError(ATTACKS[1])
        return sum(values[:-1]) + names.index(values[-1])

    space = {name: sl.Real(-1, 1) for name in names[:-1]} | {names[-1]: sl.Choice(*names[:40])}
    file = tmp_path / "<img src=x onerror=window.hacked=1>.db"
    sl.minimize(fun, sl.Space(space), rng=1, maxfevals=150, on_error="nan", method="sep-cma", store=file)
    shutil.copy(file, tmp_path / "b.db")
    with served(tmp_path) as made:
        page = opened(browser, made)
        shown = page.run("[...document.querySelectorAll('#variables tbody tr')].map(row => row.cells[0].textContent)")
        assert shown == names
        page.run(
            "document.querySelectorAll('svg').forEach(svg => svg.dispatchEvent(new PointerEvent('pointermove', "
            "{clientX: 300, clientY: 300})))"
        )
        for label in ATTACKS:
            box = "document.getElementById('filter')"
            page.run(f"{box}.value = {json.dumps(label)}; {box}.dispatchEvent(new Event('input'))")
        page.wait("document.querySelectorAll('#variables tbody tr').length < 10")
        assert "onerror" in text(page, "failures")
        assert text(page, "name") == file.name
        assert page.run("typeof window.hacked") == "undefined"
        assert page.run("document.querySelectorAll('main script, main img, iframe, b, main style').length") == 0
        assert page.complaints() == []


def test_the_page_has_no_inline_code_and_makes_no_markup_from_text():
    files = server.page_files()
    page = files["index.html"].decode()
    assert not re.search(r"<style|\son\w+=|javascript:|<script(?![^>]*src=)|https?:", page)
    code = (files["app.js"] + files["charts.js"]).decode()
    words = r"innerHTML|outerHTML\s*=|insertAdjacentHTML|document\.write|eval\(|new Function|localStorage|cookie"
    assert not re.search(words, code)
    assert sum(map(len, files.values())) < 100_000


def test_files_of_other_formats_are_refused(tmp_path):
    (tmp_path / "empty.db").touch()
    with pytest.raises(StoreError):
        Runs([tmp_path / "empty.db"])
    assert Runs([tmp_path]).overviews() == []
    assert hashlib.sha256((tmp_path / "empty.db").read_bytes()).hexdigest().startswith("e3b0c442")
