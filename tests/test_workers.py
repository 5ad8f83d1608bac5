"""Who evaluates the objective makes no difference to the result, whatever happens to them; and nobody is left
behind.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import Pipe, get_context
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import numpy as np
import pytest

import sublevel as sl
from helpers.objectives import Deadly, HangingFloat, Once, hanging_error, hanging_float, number, sphere
from helpers.processes import is_running, wait_until
from sublevel.evaluation import processes, worker
from sublevel.evaluation.evaluators import make_evaluator
from sublevel.evaluation.failures import KEPT, Failure, Failures
from sublevel.evaluation.values import as_value

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs process groups and signals")
START = {"x0": np.ones(3), "sigma0": 0.5, "popsize": 6, "rng": 1}
ONLY_SAMPLES = {"evaluate_x0": False}
"""For `minimize`: nothing but its samples is evaluated, so that evaluations can be counted."""


def run(fun, **settings):
    return sl.minimize(fun, **(START | ONLY_SAMPLES | settings))


def sampled(generations):
    """The points that `run` evaluates on the sphere, in order."""
    optimizer = sl.Optimizer(**START)
    points = []
    for _ in range(generations):
        X = optimizer.ask()
        points += list(X)
        optimizer.tell(X, sphere(X))
    return points


def facts(result):
    """All that a run decides, to the bit."""
    return (
        result.x.tobytes(),
        result.mean.tobytes(),
        result.cov.tobytes(),
        result.fun,
        result.nfev,
        result.nit,
        dict(result.reasons),
    )


def noted(folder):
    """The processes that are noted in a folder, of which there must be some."""
    pids = [int(file.name) for file in folder.iterdir() if file.name.isdecimal()]
    assert pids
    return pids


# ---------------------------------------------------------------------------------------------------- the same bits


def global_generators():
    return np.random.get_state()[1].tobytes(), random.getstate()  # noqa: NPY002


def test_threads_and_processes_give_the_bits_of_the_serial_run_and_leave_global_generators_alone():
    before = global_generators()
    expected = facts(run(sphere, maxiter=12))
    with ThreadPoolExecutor(3) as threads:
        assert facts(run(sphere, maxiter=12, workers=threads)) == expected
        assert facts(run(sphere, maxiter=12, workers=threads.map)) == expected
        assert facts(threads.submit(run, sphere, maxiter=12, workers=2).result()) == expected  # not in the main thread
    assert global_generators() == before
    assert facts(run(sphere, maxiter=12, rng=2)) != expected
    random.random()
    assert global_generators() != before


@pytest.mark.slow
def test_a_process_pool_gives_the_bits_of_the_serial_run():
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert facts(run(sphere, maxiter=12, workers=pool)) == facts(run(sphere, maxiter=12))


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3, 8])
def test_the_number_of_processes_changes_no_bit(count):
    assert facts(run(sphere, maxiter=60, workers=count)) == facts(run(sphere, maxiter=60))


def test_arrival_in_any_order_changes_no_bit(rng):
    def shuffled(fun, points):
        answers = {index: fun(points[index]) for index in rng.permutation(len(points))}
        return [answers[index] for index in range(len(points))]

    assert facts(run(sphere, maxiter=12, workers=shuffled)) == facts(run(sphere, maxiter=12))


def test_answers_come_as_they_are_completed():
    evaluate = make_evaluator(Delayed(), False, 2)
    try:
        arrivals = [index for index, _ in evaluate(np.array([[1.0], [0.0], [0.0], [0.0]]))]
    finally:
        evaluate.close()
    assert sorted(arrivals) == [0, 1, 2, 3]
    assert arrivals[0] != 0


class Delayed:
    def __call__(self, x):
        time.sleep(1.0 * x[0])
        return sphere(x)


# ---------------------------------------------------------------------------------------------------- deaths


def deaths_in(folder):
    return sum(file.name.isdecimal() for file in folder.iterdir())


def check_deaths_change_nothing(folder, every, generations, at_least, **who):
    """A run whose workers die gives the bits of the serial run, and no point is left out; how many died, how many calls
    were repeated.
    """
    expected = run(sphere, maxiter=generations)
    result = run(Deadly(folder, every), maxiter=generations, **who)
    assert facts(result) == facts(expected)
    assert len(result.failures) == 0
    deaths = deaths_in(folder)
    assert deaths >= at_least
    points = [number(x) for x in sampled(generations)]
    calls = Counter(map(int, (folder / "calls").read_text().split()))
    assert calls.keys() == set(points)
    return deaths, sum(calls.values()) - len(points)


def test_deaths_of_workers_change_no_bit(tmp_path):
    deaths, again = check_deaths_change_nothing(tmp_path, 9, 5, 2, workers=2)
    assert again == deaths


@pytest.mark.slow
def test_two_hundred_deaths_of_workers_change_no_bit(tmp_path):
    deaths, again = check_deaths_change_nothing(tmp_path, 3, 110, 200, workers=2)
    assert again == deaths


@pytest.mark.slow
def test_workers_killed_from_outside_at_any_time_change_no_bit(tmp_path):
    """Idle, starting or at work: whoever is there is killed. Nobody is at fault, so no point is given up at the second
    time.
    """
    script = """
        import sys
        from pathlib import Path
        import sublevel as sl
        from sublevel.evaluation import processes
        from helpers.objectives import Slow
        if __name__ == "__main__":
            processes.MAX_DEATHS = 10
            start = {"x0": [1.0, 1.0, 1.0], "sigma0": 0.5, "popsize": 6, "rng": 1, "evaluate_x0": False}
            result = sl.minimize(Slow(Path(sys.argv[1]), 0.02), **start, maxiter=100, workers=2)
            print(result.x.tobytes().hex(), result.nfev, len(result.failures))
    """
    import psutil

    process = started(tmp_path, script)
    kills, generator, until = 0, random.Random(1), 20
    while process.poll() is None:
        time.sleep(generator.uniform(0, 0.05))
        workers = (
            [child for child in psutil.Process(process.pid).children() if is_worker(child)]
            if process.poll() is None
            else []
        )
        if workers and (tmp_path / "calls").exists() and (tmp_path / "calls").stat().st_size >= until:
            generator.choice(workers).kill()
            kills, until = kills + 1, (tmp_path / "calls").stat().st_size + generator.randint(1, 20)
    assert kills >= 30, process.communicate()
    expected = run(sphere, maxiter=100)
    assert process.communicate()[0].split() == [expected.x.tobytes().hex(), str(expected.nfev), "0"]


def is_worker(child):
    import psutil

    try:
        return "spawn_main" in " ".join(child.cmdline())
    except psutil.Error:  # it is gone already
        return False


def check_failure(folder, what, kind, **settings):
    """A point that cannot be evaluated is as good as one whose value is NaN, and it is named."""
    point = tuple(sampled(2)[9])
    result = run(Once(point, what, folder), maxiter=2, **settings)
    assert facts(result) == facts(run(Once(point, "nan"), maxiter=2))
    assert result.failures.counts == {kind: 1}
    assert tuple(result.failures.last[0].x) == point
    assert result.diagnosis[0].name == "failed"
    assert f"1 of 12 evaluations failed (1 {kind})" in result.diagnosis[0].sentence


def test_a_death_is_noticed_within_two_seconds_and_the_second_one_is_a_failure_even_if_a_child_lives_on(
    tmp_path, monkeypatch
):
    noticed, is_final = [], processes.ProcessPool._is_given_up

    def noticing(self, *facts):
        noticed.append(time.time())
        return is_final(self, *facts)

    monkeypatch.setattr(processes.ProcessPool, "_is_given_up", noticing)
    check_failure(tmp_path, "vanish", "worker lost", workers=2)
    died = sorted((tmp_path / str(pid)).stat().st_mtime for pid in noted(tmp_path))
    assert len(died) == len(noticed) == 2
    assert all(-0.1 < seen - when < 2 for seen, when in zip(noticed, died, strict=True))
    assert wait_until(lambda: not any(map(is_running, noted(tmp_path))), 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "kind", "settings"), [("die", "worker lost", {}), ("hang", "timeout", {"timeout": 0.5})]
)
def test_a_point_that_cannot_be_evaluated_counts_as_failed_and_is_named(what, kind, settings, tmp_path):
    check_failure(tmp_path, what, kind, workers=2, **settings)


def test_a_timeout_alone_is_kept_by_one_process_and_ends_all_that_hangs(tmp_path):
    check_failure(tmp_path, "hang", "timeout", timeout=0.5)
    assert len(noted(tmp_path)) == 2  # a worker and its child
    assert wait_until(lambda: not any(map(is_running, noted(tmp_path))), 2)


@pytest.mark.slow
def test_a_point_that_took_too_long_is_tried_again_if_so_wished(tmp_path):
    check_failure(tmp_path, "hang", "timeout", timeout=0.5, on_error="retry")
    assert len(noted(tmp_path)) == 4


def test_workers_that_cannot_start_are_an_error_at_once(tmp_path, monkeypatch):
    (tmp_path / "unimportable.py").write_text(
        'from multiprocessing import current_process\nif current_process().name != "MainProcess":\n    raise '
        "SystemExit(7)\n"
        "def fun(x):\n    return 0.0\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import unimportable

    with pytest.raises(processes.WorkerLost, match=r"exit code 7.*__main__") as caught:
        run(unimportable.fun, workers=2)
    assert caught.value.sublevel_result.nfev == 0


def test_workers_killed_while_they_start_are_replaced_but_not_for_ever(monkeypatch):
    pool = processes.ProcessPool(sphere, 1)
    worker = processes.Worker(Ended(-9), None, None, 0.0)
    for _ in range(processes.MAX_KILLED_STARTS):
        pool._handle_start(worker, Failure("worker lost", ""))
    with pytest.raises(processes.WorkerLost, match="before it was ready"):
        pool._handle_start(worker, Failure("worker lost", ""))
    ready = processes.Worker(Ended(-9), None, None, 0.0)
    pool._handle_start(ready, True)
    assert ready.is_ready
    pool._handle_start(worker, Failure("worker lost", ""))  # counts from the last that was ready
    with pytest.raises(processes.WorkerLost):
        pool._handle_start(worker, Failure("timeout", ""))


class Ended:
    """A process that has ended."""

    def __init__(self, exitcode):
        self.exitcode = exitcode


def test_an_executor_that_lost_a_process_is_named():
    point = tuple(sampled(1)[2])
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        pytest.raises(processes.WorkerLost, match=r"accepts no more work.*a number as `workers`") as caught,
    ):
        run(Once(point, "die"), workers=pool)
    assert caught.value.sublevel_result.nfev <= 2


IN_SHARDS = partial(sl.minimize_sharded, **START | {"popsize": 12}, shards=6)
"""Six calls in a generation, like `run`: a pair is never split."""


@pytest.mark.parametrize("makes", [run, IN_SHARDS], ids=["minimize", "sharded"])
def test_an_executor_that_is_shut_down_in_mid_run_is_an_error_and_what_was_evaluated_is_counted_once(makes):
    calls = Counter()
    with ThreadPoolExecutor(1) as threads:

        def fun(x):
            calls[x.tobytes()] += 1
            if calls.total() == 8:  # the second of the second generation
                threads.shutdown(wait=False, cancel_futures=True)
            return sphere(x)

        with pytest.raises(
            processes.WorkerLost, match=r"was shut down during the run; 4 evaluations were cancelled"
        ) as caught:
            makes(fun, workers=threads)
    assert set(calls.values()) == {1}
    assert caught.value.sublevel_result.nfev == (
        8 if makes is run else 12
    )  # an unfinished generation of shards does not count


def test_an_executor_that_was_shut_down_is_named():
    with ThreadPoolExecutor(1) as threads:
        pass
    with pytest.raises(
        processes.WorkerLost, match=r"executor passed as `workers` accepts no more work: cannot schedule"
    ):
        run(sphere, workers=threads)


def test_workers_in_a_daemonic_process_are_refused():
    with (
        get_context("spawn").Pool(1) as pool,
        pytest.raises(processes.WorkerLost, match=r"daemonic.*ProcessPoolExecutor"),
    ):
        pool.apply(run, (sphere,), {"workers": 2})


def test_an_objective_that_closes_all_files_loses_its_process_and_writes_nothing_elsewhere(tmp_path):
    point = tuple(sampled(1)[3])
    result = run(Once(point, "close_files", tmp_path), maxiter=1, workers=2)
    assert result.failures.counts == {"worker lost": 1}
    assert "closed file descriptors" in result.failures.last[0].detail
    assert (tmp_path / "mine").read_bytes() == b""


FORKS = """
    import os, signal, sys
    import sublevel as sl
    from helpers.objectives import IS_COPY, Once, fork, memory_score
    if __name__ == "__main__":
        start = {"x0": [1.0, 1.0, 1.0], "sigma0": 0.5, "popsize": 6, "rng": 1}
        only_samples = start | {"evaluate_x0": False}
        for workers in (1, 2):
            result = sl.minimize(fork, **only_samples, maxiter=2, workers=workers)
            print(result.x.tobytes().hex(), result.nfev, flush=True)
            if IS_COPY[0]:
                os._exit(1)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody can wait for a process any more
        point = tuple(sl.Optimizer(**start).ask()[3])
        print(sl.minimize(Once(point, "die"), **only_samples, maxiter=1, workers=2).failures)
        print(sl.minimize(memory_score, **start, maxiter=1, workers=2).fun)
"""


def test_copies_of_a_process_that_the_objective_forks_end_and_deaths_are_seen_without_sigchld(tmp_path):
    said, complained = started(tmp_path, FORKS).communicate(timeout=120)
    expected = run(sphere, maxiter=2)
    same = f"{expected.x.tobytes().hex()} {expected.nfev}"
    score = [str(float(worker.OOM_SCORE))] if sys.platform == "linux" else []
    assert said.splitlines() == [same, same, "1 worker lost", *score], complained


LIMITED = """
    import os, resource, sys
    import sublevel as sl
    from helpers.objectives import sphere
    from sublevel.evaluation.processes import WorkerLost
    if __name__ == "__main__":
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        for more in (16, 4):
            resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + more, most))
            try:
                options = dict(popsize=6, rng=1, maxiter=1, workers=6, evaluate_x0=False)
                print(sl.minimize(sphere, [1.0, 1.0, 1.0], 0.5, **options).nfev)
            except WorkerLost as error:
                print(error)
"""


def test_too_few_file_descriptors_mean_fewer_workers_or_an_error_that_says_so(tmp_path):
    said, complained = started(tmp_path, LIMITED).communicate(timeout=120)
    assert said.splitlines()[0] == "6", complained
    assert "of 6 worker processes could be started" in complained
    assert "no worker process could be started: [Errno 24]" in said.splitlines()[1]
    assert "`ulimit -n`" in said.splitlines()[1]


class Gone:
    """A process that has ended without a word."""

    exitcode = None

    def is_alive(self):
        return False


def heard(*messages, raw=b""):
    """What a worker is understood to say that sends some messages, or bytes that are none."""
    here, there = Pipe()
    for message in messages:
        there.send_bytes(message)
    os.write(there.fileno(), raw)
    return processes.Worker(Gone(), here, None, np.inf).poll()


class Leaves(Exception):
    """An exception that ends the interpreter when it is unpickled."""

    def __reduce__(self):
        return sys.exit, (5,)


def test_what_a_worker_sends_cannot_end_or_stop_the_run():
    raised = ForkingPickler.dumps(worker.Raised("its traceback"))
    assert "its traceback" in str(heard(raised, worker.pickle_exception(Leaves())))
    assert "its traceback" in str(heard(raised, worker.pickle_exception(ValueError("x" * 2 * worker.MAX_EXCEPTION))))
    assert isinstance(heard(raised, worker.pickle_exception(ValueError("x"))), ValueError)
    assert heard(raw=b"garbage that says it is 1.7 GB long").kind == "worker lost"
    assert heard(b"no pickle").kind == "worker lost"
    assert len(worker._shorten("x" * 10**6)) < 1.1 * worker.MAX_TRACEBACK
    assert worker._shorten("short") == "short"


def test_a_subclass_of_float_is_sent_as_a_plain_float():
    value = as_value(HangingFloat(2.0))
    assert type(value) is float
    assert value == 2.0
    result = sl.minimize(hanging_float, [1.0, 1.0], 0.3, rng=1, maxiter=2, workers=2, timeout=20)
    assert np.isfinite(result.fun)
    assert not result.failures


def test_an_exception_that_hangs_when_it_is_unpickled_is_ended_by_the_timeout():
    settings = {"rng": 1, "maxiter": 2, "workers": 2, "timeout": 1, "evaluate_x0": False}
    result = sl.minimize(hanging_error, [1.0, 1.0], 0.3, **settings)
    assert np.isfinite(result.fun)
    assert set(result.failures.counts) == {"timeout"}


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (-9, "SIGKILL, possibly because the system ran out of memory"),
        (-11, "SIGSEGV"),
        (3, "exit code 3"),
        (0, "exit code 0"),
    ],
)
def test_the_death_of_a_worker_is_described(code, said):
    assert said in processes._describe_death(code)


# ---------------------------------------------------------------------------------------------------- errors


def serially(fun, **settings):
    return run(fun, **settings)


def by_threads(fun, **settings):
    with ThreadPoolExecutor(2) as threads:
        return run(fun, workers=threads, **settings)


def by_a_map(fun, **settings):
    return run(fun, workers=map, **settings)


def by_processes(fun, **settings):
    return run(fun, workers=2, **settings)


WAYS = [serially, by_threads, by_a_map, by_processes]


@pytest.mark.parametrize("way", WAYS)
def test_an_exception_counts_as_failed_if_so_wished(way):
    point = tuple(sampled(2)[8])
    result = way(Once(point, "refuse"), maxiter=4, on_error="nan")
    assert facts(result) == facts(run(Once(point, "nan"), maxiter=4))
    assert result.failures.counts == {"error": 1}
    assert result.failures.last[0].detail == f"ArithmeticError: not at {point[0]}"
    assert tuple(result.failures.last[0].x) == point


class Silent(Exception):
    """An exception that cannot say what it is."""

    def __str__(self):
        raise RuntimeError("no text")


def test_an_exception_without_a_text_counts_as_failed_too():
    def fun(x):
        raise Silent

    result = run(fun, maxiter=1, on_error="nan")
    assert result.failures.counts == {"error": 6}
    assert result.failures.last[0].detail == "Silent: (its __str__ raised RuntimeError)"


@pytest.mark.parametrize("way", WAYS[:3])
def test_an_exception_that_comes_once_is_forgotten_if_so_wished(way):
    assert facts(way(Flaky(times=1), maxiter=4, on_error="retry")) == facts(run(sphere, maxiter=4))
    twice = way(Flaky(times=2), maxiter=1, on_error="retry")
    assert twice.failures.counts == {"error": 6}
    with pytest.raises(ArithmeticError):
        way(Flaky(times=1), maxiter=4)


class Flaky:
    """The sphere, which raises the first times at each point."""

    def __init__(self, times):
        self.times, self.seen = times, Counter()

    def __call__(self, x):
        self.seen[x.tobytes()] += 1
        if self.seen[x.tobytes()] <= self.times:
            raise ArithmeticError("not yet")
        return sphere(x)


@pytest.mark.parametrize(("on_error", "calls"), [("nan", 1), ("retry", 2)])
def test_a_vectorized_objective_that_fails_fails_for_all_points(on_error, calls):
    seen = []

    def fun(X):
        seen.append(X.copy())
        if len(seen) > 3:
            raise ArithmeticError("enough")
        return sphere(X)

    result = run(fun, vectorized=True, on_error=on_error, maxiter=4)
    assert len(seen) == 3 + calls
    assert result.nfev == 24
    assert result.failures.counts == {"error": 6}
    assert result.failures.last[0].x.shape == (6, 3)
    assert facts(result)[:3] == facts(run(sphere, maxiter=3))[:3]


@pytest.mark.parametrize("on_error", ["nan", "retry"])
def test_what_is_no_error_of_the_objective_always_ends_the_run(on_error):
    def leave(x):
        raise SystemExit(4)

    for settings in ({}, {"vectorized": True}):
        with pytest.raises(SystemExit):
            run(leave, on_error=on_error, **settings)


def test_an_exception_at_any_evaluation_arrives_with_all_that_was_found():
    for k, point in enumerate(sampled(17)[:100]):
        with pytest.raises(ArithmeticError, match="not at") as caught:
            run(Once(tuple(point), "refuse"))
        assert caught.value.sublevel_x.tobytes() == point.tobytes()
        assert caught.value.sublevel_result.nfev == k


def check_an_exception_in_a_process(k):
    points = sampled(17)
    began = time.monotonic()
    with pytest.raises(ArithmeticError, match="not at") as caught:
        run(Once(tuple(points[k]), "refuse"), workers=2)
    assert caught.value.sublevel_x.tobytes() == points[k].tobytes()
    assert k // 6 * 6 <= caught.value.sublevel_result.nfev < k // 6 * 6 + 6
    assert "in a worker process" in "".join(caught.value.__notes__)
    assert "objectives.py" in "".join(caught.value.__notes__)
    return time.monotonic() - began


@pytest.mark.slow
def test_an_exception_at_any_evaluation_in_a_process():
    for k in range(100):
        check_an_exception_in_a_process(k)


def test_failures_are_all_counted_but_only_the_last_are_kept():
    failures = Failures()
    for k in range(2 * KEPT):
        assert np.isnan(failures.add(Failure("error", str(k)), np.zeros(1)))
    assert len(failures) == 2 * KEPT
    assert [failure.detail for failure in failures.last] == [str(k) for k in range(KEPT, 2 * KEPT)]
    assert repr(failures) == f"{2 * KEPT} error"
    assert repr(Failures()) == "none"
    assert not Failures()


@pytest.mark.parametrize(
    "settings",
    [{"workers": map}, {"workers": ThreadPoolExecutor(1)}, {"vectorized": True}],
    ids=["map", "executor", "all"],
)
def test_a_timeout_that_could_not_be_kept_is_refused(settings):
    with pytest.raises(ValueError, match=r"`timeout` needs worker processes.*`workers` must be a number"):
        run(sphere, timeout=1.0, **settings)


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"timeout": 0}, ValueError),
        ({"timeout": -1.0}, ValueError),
        ({"timeout": np.inf}, ValueError),
        ({"timeout": np.nan}, ValueError),
        ({"timeout": "1"}, TypeError),
        ({"timeout": True}, TypeError),
        ({"on_error": "ignore"}, ValueError),
        ({"on_error": None}, TypeError),
        ({"on_error": True}, TypeError),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(settings, kind):
    (name,) = settings
    with pytest.raises(kind, match=f"`{name}` must be"):
        run(sphere, workers=2, **settings)


# ---------------------------------------------------------------------------------------------------- endings


SCRIPT = """
    import sys, time
    from pathlib import Path
    import sublevel as sl
    from helpers.objectives import Once, Slow, sphere
    if __name__ == "__main__":
        def callback(r):
            if r.nit == 2:
                print("running", flush=True)
        fun = eval(sys.argv[2])
        result = sl.minimize(fun, [1.0, 1.0, 1.0], 0.5, popsize=6, rng=1, workers=int(sys.argv[3]), callback=callback)
        print(time.monotonic(), list(result.reasons), bool(result.fun == sphere(result.x)), flush=True)
"""


def started(folder, script, *arguments):
    """A script in a process of its own that leads a session."""
    (folder / "script.py").write_text(textwrap.dedent(script))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    return subprocess.Popen(
        [sys.executable, "script.py", str(folder), *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def check_ending(folder, fun, workers, sign, wait=0.0):
    """A running optimisation gets a signal: it says within a second what it found, and leaves nobody behind."""
    process = started(folder, SCRIPT, fun, str(workers))
    try:
        assert process.stdout.readline() == "running\n", process.stderr.read()
        time.sleep(wait)
        began = time.monotonic()
        (os.killpg if sign == signal.SIGINT else os.kill)(process.pid, sign)  # a terminal sends it to the group
        said, complained = process.communicate(timeout=20)
    finally:
        process.kill()
    if sign != signal.SIGKILL:
        when, said = said.split(" ", 1)
        assert said == "['interrupted'] True\n"
        assert float(when) - began < 1.0
    assert complained == ""
    assert wait_until(lambda: not any(map(is_running, noted(folder))), 2)


def test_sigterm_is_answered_like_ctrl_c(tmp_path):
    check_ending(tmp_path, "Slow(Path(sys.argv[1]), 0.05)", 2, signal.SIGTERM)


def test_even_an_objective_that_hangs_with_a_child_ends_with_the_run_that_is_killed(tmp_path):
    point = tuple(map(float, sampled(3)[14]))
    check_ending(tmp_path, f"Once({point}, 'hang', Path(sys.argv[1]))", 2, signal.SIGKILL, wait=1.0)


SUBINTERPRETER = """
import _xxsubinterpreters as interpreters
interpreters.run_string(interpreters.create(), '''
import warnings
warnings.simplefilter("ignore")  # NumPy warns of subinterpreters
import sublevel as sl
sl.minimize(lambda x: float(x @ x), [1, 1], 0.5)
''')
"""


def test_a_subinterpreter_is_refused_with_a_sentence(tmp_path):
    pytest.importorskip("_xxsubinterpreters", reason="the module has this name up to Python 3.12")
    done = subprocess.run(
        [sys.executable, "-c", SUBINTERPRETER], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    if "subprocess not supported for isolated subinterpreters" in done.stderr:
        pytest.skip("with these versions of the dependencies, an import is refused in a subinterpreter already")
    assert "minimize was called in a subinterpreter, which NumPy and SciPy do not support" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=["SIGINT", "SIGTERM", "SIGKILL"])
def test_signals_at_random_times(sign, tmp_path):
    generator = random.Random(int(sign))
    for k in range(100):
        folder = tmp_path / str(k)
        folder.mkdir()
        check_ending(
            folder, "Slow(Path(sys.argv[1]), 0.01)", generator.choice([1, 2, 2]), sign, generator.uniform(0, 1)
        )


def test_sigterm_is_left_to_those_who_have_plans_for_it():
    seen = []
    before = signal.signal(signal.SIGTERM, lambda *_: seen.append(True))
    try:
        result = run(partial(terminated_at_first, [False]), maxiter=3)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (seen, result.nit) == ([True], 3)
    assert signal.getsignal(signal.SIGTERM) is before


def terminated_at_first(done, x):
    if not done[0]:
        done[0] = True
        signal.raise_signal(signal.SIGTERM)
    return sphere(x)


def test_sigterm_returns_the_best_so_far_and_is_as_before_afterwards():
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    result = run(partial(terminated_at_first, [False]), maxiter=3)
    assert list(result.reasons) == ["interrupted"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_handler_that_the_objective_installs_for_sigterm_stays():
    def fun(x):
        signal.signal(signal.SIGTERM, own)
        return sphere(x)

    def own(*_):
        """Somebody else's."""

    try:
        run(fun, maxiter=1)
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


DAEMON = """
    import sys, threading
    from pathlib import Path
    import sublevel as sl
    from helpers.objectives import Endless, Slow
    if __name__ == "__main__":
        runs = threading.Event()
        how = {"workers": 2, "callback": lambda r: runs.set(), "maxfevals": float("inf"), "rng": 1}
        start = Slow(Path(sys.argv[1]), 0.02, Endless()), [1.0, 1.0, 1.0], 0.5
        threading.Thread(target=sl.minimize, args=start, kwargs=how, daemon=True).start()
        runs.wait()
        print("over", flush=True)
"""


def test_the_interpreter_ends_while_a_daemon_thread_has_workers_and_they_end_too(tmp_path):
    process = started(tmp_path, DAEMON)
    try:
        said, complained = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (said, complained, process.returncode) == ("over\n", "", 0)
    assert wait_until(lambda: not any(map(is_running, noted(tmp_path))), 2)


def test_a_worker_imports_numpy_and_the_modules_of_evaluation_only(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nimport sublevel as sl\ndef fun(x):\n    raise RuntimeError(' '.join(sys.modules))\n"
        "if __name__ == '__main__':\n"
        "    try:\n        sl.minimize(fun, [1.0], 0.3, workers=2)\n    except RuntimeError as error:\n        "
        "print(error)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=True)
    names = {
        name
        for name in done.stdout.split()
        if name.startswith(("sublevel", "scipy", "sqlite3", "matplotlib", "distributed"))
    }
    evaluation = {f"sublevel.evaluation.{name}" for name in ("failures", "objective", "values", "worker")}
    assert (
        names
        == {"sublevel", "sublevel.engine", "sublevel.engine.arrays", "sublevel.evaluation", "sublevel.summaries"}
        | evaluation
    )
