"""Dask clients as workers: the bits of the serial run, also when worker processes are killed; and nothing listens but
on loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import sublevel as sl
from helpers import store_driver
from helpers.mixed import SEPARATE, rastrigin
from helpers.objectives import Once, Slow, sphere
from sublevel.evaluation import dask_backend
from sublevel.evaluation.failures import Failure

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")

LOOPBACK = "127.0.0.1:0"
START = {"x0": np.ones(3), "sigma0": 0.5, "popsize": 6, "rng": 1}


@pytest.fixture(scope="module")
def client():
    """Two workers that are threads of this process."""
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            dashboard_address=LOOPBACK,
            worker_dashboard_address=LOOPBACK,
        ) as local,
        distributed.Client(local) as client,
    ):
        yield client


@contextlib.contextmanager
def processes(count):
    """A client of worker processes, which are replaced when they die."""
    where = {"host": "127.0.0.1", "dashboard_address": LOOPBACK, "worker_dashboard_address": LOOPBACK}
    patient = {
        "distributed.deploy.lost-worker-timeout": "1 hour"
    }  # a busy machine may take more than the default 15 s to start one
    with (
        dask.config.set(patient),
        distributed.LocalCluster(n_workers=count, threads_per_worker=1, **where) as local,
        distributed.Client(local) as client,
    ):
        yield client


def run(fun, **settings):
    return sl.minimize(fun, **(START | {"evaluate_x0": False} | settings))


def facts(result):
    return (
        result.x.tobytes(),
        result.mean.tobytes(),
        result.cov.tobytes(),
        result.fun,
        result.nfev,
        result.nit,
        dict(result.reasons),
    )


def listening(process):
    """The addresses at which a process and its children wait for others to connect."""
    everybody = [process, *process.children(recursive=True)]
    return {
        connection.laddr.ip
        for one in everybody
        for connection in one.net_connections()
        if connection.status == psutil.CONN_LISTEN
    }


def test_a_client_gives_the_bits_of_the_serial_run(client):
    before = np.random.get_state()[1].tobytes()  # noqa: NPY002
    assert facts(run(sphere, maxiter=12, workers=client)) == facts(run(sphere, maxiter=12))
    assert np.random.get_state()[1].tobytes() == before  # noqa: NPY002


def constrained_run(fun=store_driver.constrained, **settings):
    """A run with integers, choices and constraints."""
    again = store_driver.PROBLEMS["constrained"].again
    return sl.minimize(fun, store_driver.SPACE, popsize=6, rng=1, **again, **settings)


def test_a_client_gives_the_bits_of_the_serial_run_with_a_space_and_constraints(client, tmp_path):
    alone = constrained_run(maxiter=25)
    assert facts(constrained_run(maxiter=25, workers=client)) == facts(alone)
    file, again = tmp_path / "run.db", store_driver.PROBLEMS["constrained"].again
    constrained_run(maxiter=9, workers=client, store=file)
    resumed = sl.resume(file, store_driver.constrained, workers=client, maxiter=25, **again)
    assert facts(resumed) == facts(alone)
    assert (resumed.maxcv, resumed.params) == (alone.maxcv, alone.params)
    assert np.array_equal(resumed.multipliers[0], alone.multipliers[0])


def test_a_client_gives_the_bits_of_the_serial_run_that_tries_changes_of_single_variables(client):
    settings = {**SEPARATE, "rng": 1, "tolx": 0.1, "maxfevals": 1300}
    alone = sl.minimize(rastrigin, **settings)
    assert np.isnan(alone.history["generation_best"]).any()  # of changes
    assert facts(sl.minimize(rastrigin, workers=client, **settings)) == facts(alone)


def test_exceptions_and_failures_are_those_of_every_other_worker(client):
    optimizer = sl.Optimizer(**START)
    point = tuple(optimizer.ask()[3])
    with pytest.raises(ArithmeticError, match="not at") as caught:
        run(Once(point, "refuse"), workers=client)
    assert tuple(caught.value.sublevel_x) == point
    assert caught.value.sublevel_result.nfev <= 5
    result = run(Once(point, "refuse"), workers=client, maxiter=3, on_error="nan")
    assert result.failures.counts == {"error": 1}
    assert facts(result) == facts(run(Once(point, "nan"), maxiter=3))


@pytest.mark.parametrize("method", ["ngd", "rank-mu", "cma"])
def test_a_sharded_run_gives_the_bits_of_the_run_alone(client, method):
    settings = {"x0": np.ones(4), "sigma0": 0.5, "popsize": 300, "shards": 4, "rng": 1, "maxiter": 5, "method": method}
    assert facts(sl.minimize_sharded(sphere, workers=client, **settings)) == facts(
        sl.minimize_sharded(sphere, **settings)
    )


def test_sums_are_made_where_the_points_are(client):
    addresses = set(client.scheduler_info()["workers"])
    assert dask_backend.worker_address() == ""
    names = [f"place-{k}" for k in range(6)]
    first, again = sorted(addresses)[0], sorted(addresses)[1]
    assert set(dask_backend.run_calls(client, dask_backend.worker_address, [()] * 6, names, [""] * 6)) <= addresses
    assert dask_backend.run_calls(client, dask_backend.worker_address, [()] * 2, ["a", "b"], [first, again]) == [
        first,
        again,
    ]
    assert (
        dask_backend.run_calls(client, dask_backend.worker_address, [()], ["c"], ["inproc://nobody/1/1"])[0]
        in addresses
    )  # gone: anywhere else


def test_a_timeout_is_refused(client):
    with pytest.raises(ValueError, match="`timeout` needs worker processes"):
        run(sphere, workers=client, timeout=1.0)


def test_a_cluster_that_is_gone_is_named():
    future = SimpleNamespace(status="cancelled")
    with pytest.raises(dask_backend.ClusterLost, match="Is its scheduler still running"):
        dask_backend.get_answer(future, None)


def test_a_point_that_dask_gave_up_counts_as_failed():
    future = SimpleNamespace(status="error")
    killed = distributed.KilledWorker("key", SimpleNamespace(address="tcp://somewhere"), 3)
    assert dask_backend.get_answer(future, (type(killed), killed, None)).kind == "worker lost"
    error = ValueError("no")
    assert dask_backend.get_answer(future, (ValueError, error, None)) is error


def test_what_dask_gave_up_gets_a_second_chance(client, monkeypatch):
    given_up, answered = [], dask_backend.get_answer

    def giving_up(future, answer):
        """The first two are given up, and one of them again."""
        given_up.append(future.key)
        return Failure("worker lost", "") if len(given_up) in (1, 2, 7) else answered(future, answer)

    monkeypatch.setattr(dask_backend, "get_answer", giving_up)
    result = run(sphere, maxiter=1, workers=client)
    assert len(given_up) == 8
    assert (result.nfev, result.failures.counts) == (6, {"worker lost": 1})
    given_up.clear()
    names = [f"chance-{k}" for k in range(6)]
    with pytest.raises(dask_backend.ClusterLost):
        dask_backend.run_calls(client, abs, [(k,) for k in range(6)], names, [""] * 6)
    given_up[:] = [""] * 7
    assert dask_backend.run_calls(client, abs, [(-k,) for k in range(6)], names, [""] * 6) == list(range(6))


def test_nothing_is_a_client_before_dask_is_imported(monkeypatch, client):
    assert dask_backend.is_client(client)
    monkeypatch.delitem(sys.modules, "distributed")
    assert not dask_backend.is_client(client)
    assert dask_backend.worker_address() == ""


def test_all_that_listens_here_does_so_on_loopback(client):
    assert listening(psutil.Process()) <= {"127.0.0.1", "::1"}


# ---------------------------------------------------------------------------------------------------- deaths


class Killer(threading.Thread):
    """Kills a worker process of a local cluster whenever a few more calls were made.

    Only one whose nanny knows that it is running: Dask never replaces a worker that dies while its nanny waits for its
    first word.
    """

    def __init__(self, local, calls):
        super().__init__()
        self.local, self.calls = local, calls
        self.kills, self.over, self.random = 0, threading.Event(), random.Random(1)

    def run(self):
        until = 0
        while not self.over.wait(0.01):
            running = [
                nanny
                for nanny in self.local.workers.values()
                if nanny.status == distributed.Status.running and nanny.pid
            ]
            done = self.calls.stat().st_size if self.calls.exists() else 0
            if done > until and running:
                os.kill(self.random.choice(running).pid, signal.SIGKILL)
                self.kills += 1
                until = done + self.random.randint(2, 6)

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
def test_deaths_during_a_run_with_a_space_and_constraints_change_no_bit(tmp_path):
    with processes(2) as client, Killer(client.cluster, tmp_path / "calls") as killer:
        slow = Slow(tmp_path, 0.1, store_driver.constrained)
        result = constrained_run(slow, workers=client, callback=lambda _: killer.kills >= 8)
    assert killer.kills >= 8
    assert facts(result)[:-1] == facts(constrained_run(maxiter=result.nit))[:-1]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ngd", "rank-mu", "cma"])
def test_deaths_during_a_sharded_run_change_no_bit(tmp_path, method):
    settings = {"x0": np.ones(10), "sigma0": 0.5, "popsize": 4000, "shards": 6, "rng": 1, "method": method}
    with processes(2) as client, Killer(client.cluster, tmp_path / "calls") as killer:
        result = sl.minimize_sharded(
            Slow(tmp_path, 0.1), workers=client, callback=lambda _: killer.kills >= 8, **settings
        )
    assert killer.kills >= 8
    assert facts(result)[:-1] == facts(sl.minimize_sharded(sphere, maxiter=result.nit, **settings))[:-1]


def test_a_cluster_without_workers_is_an_error_after_a_while(monkeypatch):
    monkeypatch.setattr(dask_backend, "POLL_INTERVAL", 0.05)
    monkeypatch.setattr(dask_backend, "OUTAGE_TIMEOUT", 0.2)
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=LOOPBACK) as local,
        distributed.Client(local) as client,
        pytest.raises(dask_backend.ClusterLost, match="no workers"),
    ):
        run(sphere, workers=client)


def test_a_client_that_the_run_would_block_is_refused_but_not_in_another_thread():
    async def everything():
        settings = {
            "n_workers": 1,
            "processes": False,
            "dashboard_address": LOOPBACK,
            "worker_dashboard_address": LOOPBACK,
        }
        async with (
            distributed.LocalCluster(**settings, asynchronous=True) as local,
            distributed.Client(local, asynchronous=True) as client,
        ):
            with pytest.raises(ValueError, match=r"`workers` must be a synchronous Dask client.*asyncio\.to_thread"):
                run(sphere, workers=client)
            with pytest.raises(ValueError, match=r"`workers` must be a synchronous Dask client"):
                sl.minimize_sharded(sphere, **START, workers=client)
            return await asyncio.to_thread(run, sphere, workers=client, maxiter=2)

    assert facts(asyncio.run(everything())) == facts(run(sphere, maxiter=2))


def test_a_client_that_is_closed_is_named():
    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=LOOPBACK) as local:
        client = distributed.Client(local)
        client.close()
        with pytest.raises(dask_backend.ClusterLost, match="client passed as `workers` is closed"):
            run(sphere, workers=client)


SCHEDULER = """
import asyncio
from distributed import Scheduler

async def main():
    async with Scheduler(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0") as scheduler:
        print(scheduler.address, flush=True)
        await scheduler.finished()

asyncio.run(main())
"""


@pytest.fixture
def scheduler():
    """A scheduler in a process of its own, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCHEDULER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def test_a_scheduler_that_is_stopped_is_an_error_after_a_while(scheduler, monkeypatch):
    monkeypatch.setattr(dask_backend, "POLL_INTERVAL", 0.1)
    monkeypatch.setattr(dask_backend, "OUTAGE_TIMEOUT", 0.3)
    process, address = scheduler
    with distributed.Client(address) as client:
        process.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(dask_backend.ClusterLost, match=r"scheduler of the Dask cluster has not answered for"):
                run(sphere, workers=client)
        finally:
            process.send_signal(signal.SIGCONT)


def test_a_scheduler_that_is_killed_is_an_error(scheduler, monkeypatch):
    monkeypatch.setattr(dask_backend, "POLL_INTERVAL", 0.1)
    monkeypatch.setattr(dask_backend, "OUTAGE_TIMEOUT", 0.3)
    process, address = scheduler
    with distributed.Client(address, timeout="1s") as client:
        process.kill()
        with pytest.raises(dask_backend.ClusterLost, match=r"(?i)scheduler|client passed as `workers` is closed"):
            run(sphere, workers=client)


@pytest.mark.slow
def test_a_worker_that_hangs_is_replaced_by_dask_and_changes_no_bit(tmp_path):
    with dask.config.set({"distributed.scheduler.worker-ttl": "3s"}), processes(2) as client:
        stopped = []

        def stop_one(result):
            if not stopped:
                stopped.append(next(iter(client.cluster.workers.values())).pid)
                os.kill(stopped[0], signal.SIGSTOP)

        result = run(Slow(tmp_path, 0.05), workers=client, maxiter=4, callback=stop_one)
    assert len(stopped) == 1
    assert facts(result) == facts(run(sphere, maxiter=4))


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
