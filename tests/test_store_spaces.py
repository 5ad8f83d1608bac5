"""Stored runs of integers, categories and named parameters: they go on bit for bit, and are read by name."""

from __future__ import annotations

import csv
import json
import math
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

import sublevel as sl
from helpers.cases import OTHER_STEP_SIZES
from helpers.mixed import RASTRIGIN, SEPARATE, rastrigin, turned_rastrigin
from sublevel.engine.families import FAMILIES
from sublevel.run.restarts import STRATEGIES
from sublevel.store import recorder, samples
from sublevel.store.fingerprint import fingerprint
from sublevel.store.reader import open_run
from sublevel.store.spaces import describe_space, is_described, stored_space

SPACE = sl.Space(
    rate=sl.Real(1e-6, 1, log=True),
    depth=sl.Integer(1, 12),
    kernel=sl.Choice("rbf", "poly", "linear"),
    width=sl.Real(0, 10),
    layers=sl.Integer(1, 4096, log=True),
    size=sl.Choice("small", "medium", "large", ordered=True),
    shrink=sl.Choice(False, True, start=True),
    seed=3,
)
SPACES = {
    "mixed": SPACE,
    "categories": sl.Space(a=sl.Choice(1, 2, 3), b=sl.Choice("x", "yy"), c=sl.Choice(None, 1.5, "t", True)),
    "integers": sl.Space(n=sl.Integer(-5, 9), m=sl.Integer(scale=30.0), k=sl.Integer(1, 1000, log=True)),
    "fixed": sl.Space(a=sl.Real(2, 2), n=sl.Integer(3, 3), k=sl.Choice("x", "y"), b=sl.Real(-3, 3), m=sl.Integer(0, 9)),
}
METHODS = [f"{lra}{family}{name}" for lra in ("", "lra-") for family in FAMILIES for name in ("cma", "xnes", "ngd")]
STEP_SIZES = {f"{rule}-{lra}": (rule, lra) for rule in OTHER_STEP_SIZES for lra in (False, True)}


def cost(params):
    """A cost of any parameters: each has a value that is best."""
    total = 0.0
    for name, value in params.items():
        if isinstance(value, str | bool) or value is None:
            total += 0.3 * (len(repr(value)) + len(name)) % 1.7
        else:
            total += abs(math.asinh(value) - 0.7)
    return total


def steps(params):
    """A cost with few values: runs end soon, and restarts come early."""
    return float(cost(params) > 2)


def bowl(x):
    return float(np.sum((x - [0.3, 2.2, -1.7, 40.0]) ** 2 * [1, 3, 10, 0.01]))


VECTOR = {"x0": [0.0, 0.0, 0.0, 5.0], "sigma0": [1.0, 2.0, 1.0, 3.0], "integrality": [0, 1, 1, 1]}
VECTOR |= {"bounds": [(-2, 2), (None, None), (-4.5, 3), (1, None)], "log_scaled": [False, False, False, True]}


@pytest.fixture
def folder():
    """A directory in memory if there is one."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


def check_goes_on(folder, fun, options, moments=(1, 20, 57, 110), maxfevals=150):
    """A run that is killed before its k-th evaluation ends as one that was not; states are kept at all or no times."""
    for always in (True, False):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(recorder, "WRITING", 1e9)
            patched.setattr(recorder, "REPLAY", -1.0 if always else np.inf)
            patched.setattr(recorder, "SELDOM", np.inf)
            patched.setattr(recorder, "CHEAP", np.inf if always else 1.0)
            file, calls = folder / f"{always}.db", 0

            def watched(x, file=file):
                nonlocal calls
                calls += 1
                if calls in moments:
                    for end in ("", "-wal"):
                        shutil.copyfile(f"{file}{end}", folder / f"{calls}.db{end}")
                return fun(x)

            whole = sl.minimize(watched, **options, rng=5, maxfevals=maxfevals, store=file)
            for moment in moments:
                result = sl.resume(folder / f"{moment}.db", fun, method=options.get("method"))
                assert fingerprint(folder / f"{moment}.db") == fingerprint(file)
                assert result.x.tobytes() == whole.x.tobytes()
                assert result.params == whole.params
                for path in folder.glob(f"{moment}.db*"):
                    path.unlink()
    return whole


# Going on


@pytest.mark.parametrize("space", SPACES)
def test_a_killed_run_of_any_space_goes_on_bit_for_bit(folder, space):
    check_goes_on(folder, cost, {"x0": SPACES[space]})


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("restarts", STRATEGIES)
def test_a_killed_run_with_restarts_goes_on_bit_for_bit(folder, space, restarts):
    options = {"x0": SPACES[space], "restarts": restarts}
    fun = cost if space == "categories" else steps  # which settle soon
    whole = check_goes_on(folder, fun, options, moments=(300, 800), maxfevals=2000)
    assert whole.restarts > 0


@pytest.mark.parametrize("method", METHODS)
def test_a_killed_run_of_any_method_goes_on_bit_for_bit(folder, method):
    for kind in ("space", "vector"):
        (folder / kind).mkdir()
    check_goes_on(folder / "space", cost, {"x0": SPACE, "method": method}, moments=(57,))
    check_goes_on(folder / "vector", bowl, {**VECTOR, "sigma0": 1.5, "method": method}, moments=(57,))


@pytest.mark.parametrize("name", STEP_SIZES)
def test_a_method_that_is_an_object_is_given_again_as_it_was(folder, name):
    rule, adapted = STEP_SIZES[name]
    method = sl.cma(step_size=rule)
    method = sl.with_adapted_rates(method) if adapted else method
    check_goes_on(folder, cost, {"x0": SPACE, "method": method, "restarts": 1}, moments=(20, 110))
    assert sl.load(folder / "True.db").settings.parts == repr(method)
    with pytest.raises(ValueError, match="`method` must be the one that the run was started with"):
        sl.resume(folder / "True.db", cost, method=sl.xnes())


@pytest.mark.parametrize("restarts", [None, "ipop"])
def test_a_killed_run_of_a_vector_with_integers_goes_on_bit_for_bit(folder, restarts):
    whole = check_goes_on(folder, bowl, {**VECTOR, "restarts": restarts, "names": ["a", "b", "c", "d"]})
    assert all(type(whole.params[name]) is int for name in "bcd")


def test_a_killed_run_that_returned_to_its_best_point_goes_on_bit_for_bit(folder, caplog):
    fun = turned_rastrigin(10)  # returns after 919 evaluations
    with caplog.at_level("INFO", logger="sublevel"):
        sl.minimize(fun, **RASTRIGIN, rng=5, maxfevals=1500)
    assert any(record.message.startswith("return to the best point") for record in caplog.records)
    check_goes_on(folder, fun, RASTRIGIN, moments=(300, 915, 925, 1300), maxfevals=1500)


def evaluations_before_sweeps(**options):
    """The numbers of evaluations after which a search for the minimum of `rastrigin` begins to try changes."""
    optimizer, begun = sl.Optimizer(**SEPARATE, rng=5, **options), []
    while not optimizer.stop():
        was_sweeping = optimizer.is_sweeping
        X = optimizer.ask()
        if optimizer.is_sweeping and not was_sweeping:
            begun.append(optimizer.nfev + 1)  # and x0
        optimizer.tell(X, rastrigin(X))
    return begun


@pytest.mark.parametrize("restarts", [None, 2])
def test_a_killed_run_that_tries_changes_goes_on_bit_for_bit(folder, restarts):
    begun = evaluations_before_sweeps(restarts=restarts)
    moments = [number + more for number in begun[:2] for more in (-3, 1, 40)]
    whole = check_goes_on(folder, rastrigin, SEPARATE | {"restarts": restarts}, moments=moments, maxfevals=20_000)
    assert whole.fun < 1e-12


def test_a_budget_may_end_among_changes_and_be_raised(tmp_path):
    begun = evaluations_before_sweeps()[0]
    sl.minimize(rastrigin, **SEPARATE, rng=5, store=tmp_path / "whole.db")
    for number in (begun + 2, begun + 30):
        file = tmp_path / f"{number}.db"
        result = sl.minimize(rastrigin, **SEPARATE, rng=5, store=file, maxfevals=number)
        assert result.nfev == number
        assert sl.resume(file, rastrigin, maxfevals=10**6).success
        assert fingerprint(file) == fingerprint(tmp_path / "whole.db")


@pytest.mark.parametrize("vectorized", [False, True])
def test_changes_are_stored_where_samples_are_drawn_again(tmp_path, monkeypatch, vectorized):
    monkeypatch.setattr(samples, "SMALLEST", 1)
    monkeypatch.setattr(samples, "LEAST_GAIN", 0)
    points, file = [], tmp_path / "run.db"

    def fun(x):
        points.extend(np.atleast_2d(x).copy())
        return rastrigin(x)

    sl.minimize(fun, **SEPARATE, rng=5, store=file, vectorized=vectorized, popsize=20)
    assert np.array_equal(sl.load(file).points, points)
    with open_run(file) as reading:
        stored = [len(points) for *_, points, _ in reading.file.rows("evaluations")]
    assert min(stored) == 0 < max(stored)


def test_large_samples_of_a_space_are_drawn_again(folder, monkeypatch):
    monkeypatch.setattr(samples, "SMALLEST", 1)
    monkeypatch.setattr(samples, "LEAST_GAIN", 0)
    points = []
    check_goes_on(folder, cost, {"x0": SPACE, "popsize": 40}, moments=(57,))
    sl.minimize(lambda p: points.append(p) or cost(p), SPACE, popsize=40, rng=5, maxfevals=150)
    stored = sl.load(folder / "True.db").points
    assert [SPACE.decode(x) for x in stored] == points


def test_a_space_of_scalars_needs_not_be_given_again_but_may(tmp_path):
    file = tmp_path / "run.db"
    sl.minimize(cost, SPACE, rng=1, maxfevals=60, store=file)
    assert sl.resume(file, cost, maxfevals=80).nfev > sl.resume(file, cost, space=SPACE).nfev - 1
    other = sl.Space({**SPACE.parameters, "depth": sl.Integer(1, 13), "seed": 3})
    with pytest.raises(ValueError, match="`space` must be the one that the run was started with, Space"):
        sl.resume(file, cost, space=other)
    with pytest.raises(TypeError, match="`space` must be a Space, or a dataclass"):
        sl.resume(file, cost, space=[1, 2])
    sl.minimize(bowl, **VECTOR, rng=1, maxfevals=60, store=tmp_path / "vector.db")
    with pytest.raises(TypeError, match="`space` must be left out"):
        sl.resume(tmp_path / "vector.db", bowl, space=SPACE)


def test_a_space_starts_where_it_started(tmp_path):
    space = SPACE.start_at({"rate": 0.2, "kernel": "linear"})
    sl.minimize(cost, space, 0.1, rng=1, maxfevals=40, store=tmp_path / "a.db")
    sl.minimize(cost, space, 0.1, rng=1, maxfevals=80, store=tmp_path / "b.db")
    sl.resume(tmp_path / "a.db", cost, maxfevals=80)
    assert fingerprint(tmp_path / "a.db") == fingerprint(tmp_path / "b.db")
    assert sl.load(tmp_path / "a.db").space == space


OBJECTS = sl.Space(
    f=sl.Choice(math.sin, math.cos), g=sl.Choice(np.float32(0.5), np.float32(2)), x=sl.Real(0, 1), o=sl.Choice(math.tan)
)


def test_a_space_of_objects_must_be_given_again(tmp_path):
    def fun(p):
        return float(p["f"](p["x"]) + p["g"] + p["o"](p["x"]))

    file = tmp_path / "run.db"
    sl.minimize(fun, OBJECTS, rng=1, maxfevals=40, store=file)
    with pytest.raises(TypeError, match=r"`space` must be given again, because .* cannot be stored: Space\(f=Choice\("):
        sl.resume(file, fun)
    sl.resume(file, fun, space=OBJECTS, maxfevals=80)
    whole = sl.minimize(fun, OBJECTS, rng=1, maxfevals=80, store=tmp_path / "whole.db")
    assert fingerprint(file) == fingerprint(tmp_path / "whole.db")
    run = sl.load(file)
    assert run.params["f"] == repr(whole.params["f"])
    assert run.params["g"] == whole.params["g"]
    with pytest.raises(ValueError, match="could not be stored in full"):
        run.warm_start()


@dataclass
class Config:
    """Annotated fields that stand for a space."""

    rate: Annotated[float, sl.Real(1e-3, 1, log=True)]
    depth: Annotated[int, sl.Integer(1, 9)]
    name: str = "default"


def of_config(config):
    assert type(config) is Config
    return abs(math.log(config.rate) + 2) + abs(config.depth - 4)


def test_a_dataclass_must_be_given_again(tmp_path):
    file = tmp_path / "run.db"
    sl.minimize(of_config, Config, rng=1, maxfevals=40, store=file)
    with pytest.raises(TypeError, match="`space` must be given again, because the run was started with a dataclass"):
        sl.resume(file, of_config)
    result = sl.resume(file, of_config, space=Config, maxfevals=120)
    assert result.params == sl.minimize(of_config, Config, rng=1, maxfevals=120).params


def test_workers_resume_named_parameters(tmp_path):
    sl.minimize(cost, SPACE, rng=1, maxfevals=40, store=tmp_path / "a.db", workers=2)
    sl.resume(tmp_path / "a.db", cost, maxfevals=80, workers=2)
    sl.minimize(cost, SPACE, rng=1, maxfevals=80, store=tmp_path / "b.db")
    assert fingerprint(tmp_path / "a.db") == fingerprint(tmp_path / "b.db")


# Descriptions


@pytest.mark.parametrize("space", SPACES)
def test_a_description_is_json_and_is_read_back(space):
    text = json.dumps(describe_space(SPACES[space]))
    assert stored_space(json.loads(text)) == SPACES[space]
    assert is_described(SPACES[space])


@pytest.mark.parametrize("value", [math.nan, np.float64(1.0), 2**70, "x" * 2000, object(), [1, 2], np.arange(2), b"x"])
def test_what_json_does_not_have_is_a_text_or_a_number(value):
    space = sl.Space(a=sl.Choice(1.25, value, start=value), b=sl.Real(0, 1))
    assert not is_described(space)
    stored = stored_space(json.loads(json.dumps(describe_space(space))))
    assert stored.parameters["a"].first == 1


def test_objects_with_one_text_stay_apart():
    space = sl.Space(a=sl.Choice(object(), object(), "<object object>"), b=sl.Real(0, 1))
    values = stored_space(describe_space(space)).parameters["a"].values
    assert len(set(values)) == 3
    assert all(value.startswith("<object object>") for value in values)


# Reading and writing


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A stored run of the mixed space."""
    file = tmp_path_factory.mktemp("spaces") / "run.db"
    sl.minimize(cost, SPACE, rng=2, maxfevals=100, store=file)
    return sl.load(file)


def test_a_stored_run_has_its_space_and_parameters(run):
    assert run.space == SPACE
    assert run.params == run.result.params == SPACE.decode(run.result.x)
    assert cost(run.params) == run.result.fun
    assert "kernel=" in repr(run)


def test_the_parameters_of_an_unfinished_run_are_those_of_its_best_point(folder, monkeypatch):
    monkeypatch.setattr(recorder, "WRITING", 1e9)
    monkeypatch.setattr(recorder, "REPLAY", np.inf)
    monkeypatch.setattr(recorder, "SELDOM", np.inf)
    seen = []

    def fun(params):
        if len(seen) == 70:
            raise KeyboardInterrupt
        seen.append(cost(params))
        return seen[-1]

    sl.minimize(fun, SPACE, rng=2, store=folder / "run.db")
    found = sl.load(folder / "run.db")
    assert cost(found.params) == found.result.fun == min(seen)


def test_a_frame_has_decoded_columns(run):
    frame = run.to_frame()
    decoded = SPACE.decode(run.points)
    assert list(frame.columns) == ["run", "iteration", "index", "value", *SPACE.names]
    assert [frame[name].dtype.kind for name in ("rate", "depth", "layers", "shrink")] == ["f", "i", "i", "b"]
    for name in SPACE.names:
        assert frame[name].tolist() == decoded[name]


def test_exports_have_decoded_columns(run, tmp_path):
    from pyarrow import parquet

    decoded = SPACE.decode(run.points)
    for end in ("csv", "parquet", "npz"):
        run.export(tmp_path / f"run.{end}")
    with (tmp_path / "run.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    table, arrays = parquet.read_table(tmp_path / "run.parquet"), np.load(tmp_path / "run.npz")
    for name in SPACE.names:
        assert [row[name] for row in rows] == [str(value) for value in decoded[name]]
        assert table[name].to_pylist() == decoded[name] == arrays["params"][name].tolist()
    np.testing.assert_array_equal(arrays["x"], run.points)
    assert arrays["names"].tolist() == list(SPACE.names)


def test_a_text_that_spreadsheets_would_run_is_quoted(tmp_path):
    space = sl.Space(a=sl.Choice("=1+2", "x, y"), b=sl.Real(0, 1))
    sl.minimize(lambda p: p["b"], space, rng=1, maxfevals=20, store=tmp_path / "run.db")
    sl.load(tmp_path / "run.db").export(tmp_path / "run.csv")
    with (tmp_path / "run.csv").open(newline="", encoding="utf-8") as stream:
        assert {row["a"] for row in csv.DictReader(stream)} == {"'=1+2", "x, y"}


def test_integers_of_a_vector_are_exported_as_integers(tmp_path):
    sl.minimize(bowl, **VECTOR, rng=1, maxfevals=60, store=tmp_path / "run.db")
    run = sl.load(tmp_path / "run.db")
    frame = run.to_frame()
    assert [frame[f"x{i}"].dtype.kind for i in range(4)] == ["f", "i", "i", "i"]
    np.testing.assert_array_equal(frame[["x0", "x1", "x2", "x3"]].to_numpy(), run.points)


def test_integers_beyond_those_of_floats_stay_floats(tmp_path):
    far = {"integrality": 1, "rng": 1, "maxfevals": 40, "store": tmp_path / "run.db"}
    sl.minimize(lambda x: -x[0] + x[1] ** 2, [1e20, 0], [1e19, 1], **far)
    frame = sl.load(tmp_path / "run.db").to_frame()
    assert [frame[name].dtype.kind for name in ("x0", "x1")] == ["f", "i"]


def test_json_has_parameters_by_name():
    result = sl.minimize(lambda p: p["x"], OBJECTS, rng=1, maxfevals=40)
    facts = json.loads(result.to_json())
    assert facts["params"]["x"] == result.params["x"]
    assert facts["params"]["f"] in (str(math.sin), str(math.cos))


# Warm starts


def test_a_warm_start_of_a_space_begins_near_the_best_points(run):
    x0, sigma0, cov0 = run.warm_start()
    assert x0.names == SPACE.names
    assert x0.parameters["kernel"].values[x0.parameters["kernel"].first] == run.params["kernel"]
    better = sl.minimize(cost, x0, sigma0, cov0=cov0, rng=1, maxfevals=100)
    assert better.fun < run.result.fun
    assert sl.warm_start(run.points, run.values, space=SPACE).x0 == x0


def test_a_warm_start_takes_parameters_by_name(run):
    rows = [SPACE.decode(x) for x in run.points]
    named, plain = (sl.warm_start(points, run.values, space=SPACE) for points in (rows, run.points))
    assert named.x0 == plain.x0
    np.testing.assert_array_equal(named.sigma0, plain.sigma0)
    assert type(sl.warm_start([{"rate": 0.1, "depth": 2}] * 2, [1, 2], space=Config).x0) is sl.Space


def test_a_warm_start_stays_within_the_space():
    space = sl.Space(a=sl.Real(1e-3, 0.1, log=True), n=sl.Integer(1, 3), k=sl.Choice("x", "y"))
    start = sl.warm_start(np.array([[0.1, 3, 1]] * 5), np.arange(5.0), space=space)
    assert start.x0.decode(start.x0.coordinates().x0) == {"a": 0.1, "n": 3, "k": "y"}
    assert (start.sigma0 > 0).all()
    with pytest.raises(ValueError, match="`points` must lie within the bounds of the space"):
        sl.warm_start([[1.0, 2, 0]] * 2, [1, 2], space=space)
    with pytest.raises(ValueError, match="`points` must have the 3 parameters of the space"):
        sl.warm_start([[1.0, 2]] * 2, [1, 2], space=space)
    with pytest.raises(TypeError, match="`log_scaled` must not be given with a Space"):
        sl.warm_start([[0.1, 2, 0]] * 2, [1, 2], space=space, log_scaled=True)


def test_a_warm_start_of_a_vector_with_integers_works_with_integrality(tmp_path):
    sl.minimize(bowl, **VECTOR, rng=1, maxfevals=100, store=tmp_path / "run.db")
    x0, sigma0, cov0 = sl.load(tmp_path / "run.db").warm_start()
    result = sl.minimize(bowl, x0, sigma0, cov0=cov0, **{k: VECTOR[k] for k in ("integrality", "bounds", "log_scaled")})
    assert result.fun < 3
    assert (result.x[1:] == np.rint(result.x[1:])).all()
