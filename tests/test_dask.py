"""Dask clients as workers: the bits of the serial run, also when worker processes are killed; and nothing listens but on loopback."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import sublevel as sl
from objectives import Once, Slow, sphere
from sublevel import cluster

distributed = pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")

LOOPBACK = "127.0.0.1:0"
START = {"x0": np.ones(3), "sigma0": 0.5, "popsize": 6, "rng": 1}


@pytest.fixture(scope="module")
def client():
    """Two workers that are threads of this process."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=LOOPBACK, worker_dashboard_address=LOOPBACK
        ) as local,
        distributed.Client(local) as client,
    ):
        yield client


@contextlib.contextmanager
def processes(count):
    """A client of worker processes, which are replaced when they die."""
    where = {"host": "127.0.0.1", "dashboard_address": LOOPBACK, "worker_dashboard_address": LOOPBACK}
    with (
        distributed.LocalCluster(n_workers=count, threads_per_worker=1, **where) as local,
        distributed.Client(local) as client,
    ):
        yield client


def run(fun, **settings):
    return sl.minimize(fun, **(START | settings))


def facts(result):
    return result.x.tobytes(), result.mean.tobytes(), result.cov.tobytes(), result.fun, result.nfev, result.nit, dict(result.reasons)


def listening(process):
    """The addresses at which a process and its children wait for others to connect."""
    everybody = [process, *process.children(recursive=True)]
    return {connection.laddr.ip for one in everybody for connection in one.net_connections() if connection.status == psutil.CONN_LISTEN}


def test_a_client_gives_the_bits_of_the_serial_run(client):
    before = np.random.get_state()[1].tobytes()  # noqa: NPY002
    assert facts(run(sphere, maxiter=12, workers=client)) == facts(run(sphere, maxiter=12))
    assert np.random.get_state()[1].tobytes() == before  # noqa: NPY002


def test_exceptions_and_failures_are_those_of_every_other_worker(client):
    optimizer = sl.Optimizer(**START)
    point = tuple(optimizer.ask()[3])
    with pytest.raises(ArithmeticError, match="not at") as caught:
        run(Once(point, "refuse"), workers=client)
    assert tuple(caught.value.sublevel_x) == point
    assert caught.value.sublevel_result.nfev <= 5
    result = run(Once(point, "refuse"), workers=client, maxiter=3, on_error="fail")
    assert result.failures.counts == {"error": 1}
    assert facts(result) == facts(run(Once(point, "nan"), maxiter=3))


@pytest.mark.parametrize("method", ["ngd", "rank-mu", "cma"])
def test_a_sharded_run_gives_the_bits_of_the_run_alone(client, method):
    settings = {"x0": np.ones(4), "sigma0": 0.5, "popsize": 300, "shards": 4, "rng": 1, "maxiter": 5, "method": method}
    assert facts(sl.minimize_sharded(sphere, workers=client, **settings)) == facts(sl.minimize_sharded(sphere, **settings))


def test_sums_are_made_where_the_points_are(client):
    addresses = set(client.scheduler_info()["workers"])
    assert cluster.place() == ""
    names = [f"place-{k}" for k in range(6)]
    first, again = sorted(addresses)[0], sorted(addresses)[1]
    assert set(cluster.gathered(client, cluster.place, [()] * 6, names, [""] * 6)) <= addresses
    assert cluster.gathered(client, cluster.place, [()] * 2, ["a", "b"], [first, again]) == [first, again]
    assert cluster.gathered(client, cluster.place, [()], ["c"], ["inproc://nobody/1/1"])[0] in addresses  # gone: anywhere else


def test_a_timeout_is_refused(client):
    with pytest.raises(ValueError, match="`timeout` ends the process"):
        run(sphere, workers=client, timeout=1.0)


def test_a_cluster_that_is_gone_is_named():
    future = SimpleNamespace(status="cancelled")
    with pytest.raises(cluster.ClusterLost, match="Is its scheduler still there"):
        cluster.answered(future, None)


def test_a_point_that_dask_gave_up_counts_as_failed():
    future = SimpleNamespace(status="error")
    killed = distributed.KilledWorker("key", SimpleNamespace(address="tcp://somewhere"), 3)
    assert cluster.answered(future, (type(killed), killed, None)).kind == "worker lost"
    error = ValueError("no")
    assert cluster.answered(future, (ValueError, error, None)) is error


def test_nothing_is_a_client_before_dask_is_imported(monkeypatch, client):
    assert cluster.is_client(client)
    monkeypatch.delitem(sys.modules, "distributed")
    assert not cluster.is_client(client)
    assert cluster.place() == ""


def test_all_that_listens_here_does_so_on_loopback(client):
    assert listening(psutil.Process()) <= {"127.0.0.1", "::1"}


# ---------------------------------------------------------------------------------------------------- deaths


class Killer(threading.Thread):
    """Kills a worker process of a local cluster whenever a few more calls were made.

    Only one whose nanny knows that it is running: Dask never replaces a worker that dies while its nanny waits for its first word.
    """

    def __init__(self, local, calls):
        super().__init__()
        self.local, self.calls = local, calls
        self.kills, self.over, self.random = 0, threading.Event(), random.Random(1)

    def run(self):
        until = 0
        while not self.over.wait(0.01):
            running = [nanny for nanny in self.local.workers.values() if nanny.status == distributed.Status.running and nanny.pid]
            done = self.calls.stat().st_size if self.calls.exists() else 0
            if done > until and running:
                os.kill(self.random.choice(running).pid, signal.SIGKILL)
                self.kills += 1
                until = done + self.random.randint(0, 3)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()


@pytest.mark.slow
def test_fifty_deaths_of_worker_processes_change_no_bit(tmp_path):
    with processes(2) as client, Killer(client.cluster, tmp_path / "calls") as killer:
        assert listening(psutil.Process()) == {"127.0.0.1"}
        result = run(Slow(tmp_path, 0.1), workers=client, callback=lambda _: killer.kills >= 50)
    assert killer.kills >= 50
    assert facts(result)[:-1] == facts(run(sphere, maxiter=result.nit))[:-1]
    assert (result.nfev, len(result.failures)) == (6 * result.nit, 0)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ngd", "rank-mu", "cma"])
def test_deaths_during_a_sharded_run_change_no_bit(tmp_path, method):
    settings = {"x0": np.ones(10), "sigma0": 0.5, "popsize": 4000, "shards": 6, "rng": 1, "method": method}
    with processes(2) as client, Killer(client.cluster, tmp_path / "calls") as killer:
        result = sl.minimize_sharded(Slow(tmp_path, 0.1), workers=client, callback=lambda _: killer.kills >= 8, **settings)
    assert killer.kills >= 8
    assert facts(result)[:-1] == facts(sl.minimize_sharded(sphere, maxiter=result.nit, **settings))[:-1]


def test_a_cluster_without_workers_is_an_error_after_a_while(monkeypatch):
    monkeypatch.setattr(cluster, "LOOK", 0.05)
    monkeypatch.setattr(cluster, "PATIENCE", 0.2)
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=LOOPBACK) as local,
        distributed.Client(local) as client,
        pytest.raises(cluster.ClusterLost, match="no workers"),
    ):
        run(sphere, workers=client)


class PeakMemory:
    """The most memory that this process had while this was open."""

    def __enter__(self):
        self.bytes, self._over = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self):
        process = psutil.Process()
        while not self._over.wait(0.005):
            self.bytes = max(self.bytes, process.memory_info().rss)

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()


@pytest.mark.slow
def test_the_driver_of_a_sharded_run_needs_no_memory_for_points():
    settings = {"sigma0": 0.5, "popsize": 100_000, "shards": 4, "rng": 1, "maxiter": 3, "method": "ngd"}
    peaks = {}
    with processes(2) as client:
        sl.minimize_sharded(sphere, np.ones(10), workers=client, **settings)
        for d in (10, 400):
            with PeakMemory() as peak:
                sl.minimize_sharded(sphere, np.ones(d), workers=client, **settings)
            peaks[d] = peak.bytes
    with PeakMemory() as alone:
        sl.minimize_sharded(sphere, np.ones(400), **settings)
    points = 100_000 * 400 * 8
    assert peaks[400] - peaks[10] < 0.1 * points
    assert alone.bytes - peaks[10] > 0.9 * points
