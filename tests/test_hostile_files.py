"""Files that are damaged, truncated, forged or not ours: a clear error or an earlier state, never a crash, never wrong
numbers.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import sqlite3
import tempfile
import time
import tracemalloc
import zipfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import sublevel as sl
from sublevel.store import recorder
from sublevel.store.file import APPLICATION, SCHEMA, VERSION, with_checksum
from sublevel.store.fingerprint import fingerprint
from sublevel.store.lock import is_locked

SETTINGS = {"rng": 3, "restarts": "ipop", "maxfevals": 160, "popsize": 6}


def valley(x):
    return float(np.floor(2000 * np.sum(x**2 * [1, 7, 50])))


@pytest.fixture(scope="module")
def folder():
    """A directory in memory if there is one."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def runs(folder):
    """A run that is over, one that was killed, with its write-ahead log, and the fingerprint of their end."""
    over, killed = folder / "over.db", folder / "killed.db"
    calls = 0

    def fun(x):
        nonlocal calls
        if (calls := calls + 1) == 100:
            for end in ("", "-wal"):
                shutil.copyfile(folder / f"over.db{end}", folder / f"killed.db{end}")
        return valley(x)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(recorder, "WRITING", 1e9)
        patched.setattr(recorder, "REPLAY", 0.005)
        sl.minimize(fun, np.ones(3), 0.5, **SETTINGS, store=over)
    assert (folder / "killed.db-wal").stat().st_size > 10_000
    return {"over": over, "killed": killed, "end": fingerprint(over)}


def contents(path):
    """The bytes of a file and of its log."""
    return [file.read_bytes() if (file := path.with_name(path.name + end)).exists() else None for end in ("", "-wal")]


def verdict(path, end):
    """What becomes of a file: it is refused and stays as it was, or the run goes on to the end it must have."""
    before = contents(path)
    try:
        sl.load(path)
        sl.resume(path, valley)
    except sl.StoreError:
        assert contents(path) == before
        return "refused"
    assert fingerprint(path) == end
    return "went on"


def altered(runs, which, part, change, folder):
    """A copy of a run with one of its files changed."""
    target = folder / "altered.db"
    for end in ("", "-wal", "-shm", "-journal"):
        target.with_name(target.name + end).unlink(missing_ok=True)
    for end in ("", "-wal"):
        source = runs[which].with_name(runs[which].name + end)
        if source.exists():
            data = bytearray(source.read_bytes())
            target.with_name(target.name + end).write_bytes(change(data) if end == part else data)
    return target


PLACES = [("over", ""), ("killed", ""), ("killed", "-wal")]


def check_flips(runs, folder, count, seed):
    rng, seen = np.random.default_rng(seed), []
    for _ in range(count):
        which, part = PLACES[rng.integers(len(PLACES))]

        def flip(data):
            data[rng.integers(len(data))] ^= 1 << rng.integers(8)
            return data

        seen.append((which + part, verdict(altered(runs, which, part, flip, folder), runs["end"])))
    return seen


def check_truncations(runs, folder, count, seed):
    rng, seen = np.random.default_rng(seed), []
    for _ in range(count):
        which, part = PLACES[rng.integers(len(PLACES))]
        path = altered(runs, which, part, lambda data: data[: rng.integers(len(data))], folder)
        seen.append((which + part, verdict(path, runs["end"])))
    return seen


def test_flipped_bits_are_noticed_or_harmless(runs, folder):
    seen = check_flips(runs, folder, 60, seed=1)
    assert {outcome for _, outcome in seen} == {"refused", "went on"}


def test_truncated_files_are_noticed_or_go_on_from_an_earlier_state(runs, folder):
    seen = check_truncations(runs, folder, 24, seed=2)
    assert all(outcome == "refused" for place, outcome in seen if place == "over")
    assert any(outcome == "went on" for place, outcome in seen if place == "killed-wal")


@pytest.mark.slow
def test_ten_thousand_flipped_bits(runs, folder):
    seen = check_flips(runs, folder, 10_000, seed=3)
    print({key: seen.count(key) for key in sorted(set(seen))})


@pytest.mark.slow
def test_a_thousand_truncations(runs, folder):
    seen = check_truncations(runs, folder, 1000, seed=4)
    print({key: seen.count(key) for key in sorted(set(seen))})


def test_a_checksum_sees_what_it_guards(runs, folder):
    """The negative control: the same change with its checksum made anew is not noticed, so it is the checksum that
    notices.
    """
    path = altered(runs, "over", "", bytes, folder)
    data = bytearray(row(path, "evaluations", "WHERE iteration = 3")[5])
    data[3] ^= 1
    put(path, "UPDATE evaluations SET vals = ? WHERE iteration = 3", (bytes(data),))
    with pytest.raises(sl.StoreError, match="'3' of evaluations has a wrong checksum"):
        sl.load(path)
    columns = row(path, "evaluations", "WHERE iteration = 3")
    put(path, "UPDATE evaluations SET crc = ? WHERE iteration = 3", (with_checksum(*columns[:-1])[-1],))
    assert sl.load(path).values.size


# Forged


def row(path, table, condition):
    with sqlite3.connect(path) as connection:
        return connection.execute(f"SELECT * FROM {table} {condition}").fetchone()


def put(path, statement, arguments=()):
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, arguments)
    connection.close()


def forged_part(name, **changes):
    """Change facts, layout or data of a part, with the right checksum."""

    def forge(path):
        _, facts, layout, data, origin, _ = row(path, "parts", f"WHERE name = '{name}'")
        if "facts" in changes:
            facts = changes["facts"](json.loads(facts))
            facts = facts if isinstance(facts, str) else json.dumps(facts)
        if "layout" in changes:
            layout = json.dumps(changes["layout"](json.loads(layout)))
        if "data" in changes:
            data = changes["data"](data)
        put(
            path,
            "INSERT OR REPLACE INTO parts VALUES (?, ?, ?, ?, ?, ?)",
            with_checksum(name, facts, layout, data, origin),
        )

    return forge


def forged_row(table, change):
    """Put a row beside or in place of one that is there, with the right checksum."""

    def forge(path):
        found = row(path, table, "LIMIT 1")
        origin = row(path, "parts", "LIMIT 1")[-2]
        columns = change(None if found is None else found[:-2])
        places = ", ".join("?" * (len(columns) + 2))
        put(path, f"INSERT OR REPLACE INTO {table} VALUES ({places})", with_checksum(*columns, origin))

    return forge


def settings(**changes):
    return forged_part("configuration", facts=lambda facts: facts | changes)


def checkpoint(**changes):
    return forged_part("checkpoint", facts=lambda facts: facts | changes)


def number(path, value):
    """Another number in the state."""

    def forge(file):
        layout = json.loads(row(file, "parts", "WHERE name = 'checkpoint'")[2])
        sizes = [int(np.prod(shape)) * np.dtype(dtype).itemsize for _, dtype, shape, _ in layout]
        place = [name for name, *_ in layout].index(path)
        begin, dtype = sum(sizes[:place]), layout[place][1]
        forged_part(
            "checkpoint",
            data=lambda data: data[:begin] + np.array(value, dtype).tobytes() + data[begin + sizes[place] :],
        )(file)

    return forge


def rng_state(**changes):
    return forged_part("checkpoint", facts=lambda facts: facts | {"rng": facts["rng"] | changes})


def shaped(name, path, shape, dtype="float64"):
    def layout(rows):
        return [[place, dtype, shape, "C"] if place == path else [place, *rest] for place, *rest in rows]

    return forged_part(name, layout=layout)


def schema(*statements):
    """Other things in the schema."""

    def forge(path):
        for statement in statements:
            put(path, statement)

    return forge


ENDLESS = "AS WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n, 0, 0, x'00', 0 FROM t"
FORGED = {
    "a generation of a run before the first": forged_row("generations", lambda row: (row[0], -1, *row[2:])),
    "a generation of no points": forged_row("generations", lambda row: (*row[:2], 0, row[3])),
    "points of a part of a number": forged_row("evaluations", lambda row: (*row[:4], row[4][:-1], row[5])),
    "a start beyond what can be searched": forged_part(
        "configuration", data=lambda data: np.float64(1e308).tobytes() + data[8:]
    ),
    "newer version": schema(f"PRAGMA user_version = {VERSION + 1}"),
    "other application": schema("PRAGMA application_id = 7"),
    "endless view": schema("DROP TABLE generations", f"CREATE VIEW generations {ENDLESS}"),
    "huge view": schema(
        "DROP TABLE evaluations", "CREATE VIEW evaluations AS SELECT 1, 0, zeroblob(900000000), x'00', 0"
    ),
    "trigger": schema("CREATE TRIGGER t AFTER INSERT ON parts BEGIN DELETE FROM evaluations; END"),
    "further table": schema("CREATE TABLE more (x)"),
    "further column": schema("ALTER TABLE parts ADD COLUMN more TEXT"),
    "index": schema("CREATE INDEX i ON evaluations (run)"),
    "no tables": schema(*(f"DROP TABLE {name}" for name in SCHEMA)),
    "no configuration": schema("DELETE FROM parts WHERE name = 'configuration'"),
    "no checkpoint": schema("DELETE FROM parts WHERE name = 'checkpoint'"),
    "no memory": schema("DELETE FROM parts WHERE name = 'memory'"),
    "no snapshots": schema("DELETE FROM snapshots"),
    "a generation less": schema("DELETE FROM generations WHERE iteration = 4"),
    "evaluations less": schema("DELETE FROM evaluations WHERE iteration = 4"),
    "text for bytes": schema("UPDATE evaluations SET points = 'text' WHERE iteration = 2"),
    "null for bytes": schema("UPDATE generations SET run = 2.5 WHERE iteration = 2"),
    "a program for a method": settings(method="os.system"),
    "a class for a family": settings(family="object"),
    "another family": settings(family="DiagonalGaussian"),
    "another method": settings(method="sep-cma"),
    "a program for restarts": settings(restarts=["Popen", 1, 2.0]),
    "endless restarts": settings(restarts=["IPOP", -1, 2.0]),
    "eight terabytes of points": settings(popsize=10**12),
    "a negative sample": settings(popsize=-6),
    "no sample": settings(popsize=0),
    "text for a number": settings(popsize="6"),
    "words for limits": settings(limits=["a", "b", "c"]),
    "settings too many": settings(more=1),
    "settings too few": forged_part("configuration", facts=lambda facts: {"method": "cma"}),
    "a list for settings": forged_part("configuration", facts=lambda facts: "[]"),
    "deep nesting": forged_part("configuration", facts=lambda facts: "[" * 100_000),
    "the best of a run to come": number("best.run", 1),
    "the best of no run": number("best.run", -1),
    "a distribution of the best that is not there": checkpoint(has_theta_of_best=True),
    "a million digits": forged_part("checkpoint", facts=lambda facts: '{"nit": ' + "9" * 1_000_000 + "}"),
    "long facts": forged_part("checkpoint", facts=lambda facts: json.dumps({"nit": "x" * 2**24})),
    "no JSON": forged_part("checkpoint", facts=lambda facts: "__import__('os')"),
    "negative shape": shaped("configuration", "x0", [-3]),
    "seven tebibytes": shaped("configuration", "x0", [10**12]),
    "a matrix for a point": shaped("configuration", "x0", [3, 3]),
    "objects for numbers": shaped("configuration", "x0", [3], "object"),
    "other byte order": shaped("configuration", "x0", [3], ">f8"),
    "text for a shape": shaped("configuration", "x0", "abc"),
    "a huge root": shaped("checkpoint", "search.theta.root", [10**6, 10**6]),
    "a negative root": shaped("checkpoint", "search.theta.root", [-3, -3]),
    "no layout": forged_part("checkpoint", layout=lambda layout: {}),
    "arrays too many": forged_part("checkpoint", layout=lambda layout: [*layout, ["more", "float64", [1], "C"]]),
    "bytes missing": forged_part("checkpoint", data=lambda data: data[:-8]),
    "bytes too many": forged_part("memory", data=lambda data: data + bytes(8)),
    "not a number in the state": forged_part("checkpoint", data=lambda data: np.full(len(data) // 8, np.nan).tobytes()),
    "nothing in the state": forged_part("checkpoint", data=lambda data: bytes(len(data))),
    "another generator": rng_state(bit_generator="os.system"),
    "a generator's negative state": rng_state(state={"state": -1, "inc": 1}),
    "a generator's long state": rng_state(state={"state": 2**128, "inc": 1}),
    "no generator": checkpoint(rng=None),
    "a negative count": number("nit", -1),
    "generations that are not there": number("nit", 10_000),
    "evaluations that are not there": number("nfev", 7),
    "a huge sample": number("run.popsize", 10**12),
    "no sample in the state": number("run.popsize", 0),
    "restarts that were not": number("restarts", 99),
    "an unknown reason to stand still for": number("standing.standstill", 99),
    "a reason that is none to stand still for": number("standing.standstill", 0),
    "a count of no generations": number("standing.generations", -1),
    "a restart more": forged_row("restarts", lambda row: (0, 6, '{"tolx": 1.0}', "[6, 1.0, 100.0, false]")),
    "words for the reasons of a restart": forged_row(
        "restarts", lambda row: (0, 6, '{"because": 1.0}', "[6, 1.0, 100.0, false]")
    ),
    "no reason for a restart": forged_row("restarts", lambda row: (0, 6, "{}", "[6, 1.0, 100.0, false]")),
    "deep nesting in a restart": forged_row("restarts", lambda row: (0, 6, "[" * 100_000, "null")),
    "a program for a run": forged_row(
        "restarts", lambda row: (0, 6, '{"tolx": 1.0}', '["os.system", 1.0, 1.0, false]')
    ),
    "a negative number of evaluations": forged_row(
        "restarts", lambda row: (0, -5, '{"tolx": 1.0}', "[6, 1.0, 100.0, false]")
    ),
    "evaluations twice": forged_row("evaluations", lambda row: (row[0], 1, *row[2:])),
    "an evaluation more": forged_row("evaluations", lambda row: (row[0], 6, row[2], 1, row[4][:24], row[5][:8])),
    "evaluations of a generation to come": forged_row("evaluations", lambda row: (row[0], -1, *row[2:])),
    "half of the values": forged_row("evaluations", lambda row: (*row[:3], 3, row[4][:72], row[5][:24])),
    "a failure that moves the cursor": forged_row("failures", lambda row: (1, 0, 1, "error", "\x1b[2J")),
    "a failure of no evaluation": forged_row("failures", lambda row: (1, 0, 0, "error", "what")),
    "a long failure": forged_row("failures", lambda row: (1, 0, 1, "error", "x" * 201)),
    "a row of another run": schema("UPDATE generations SET origin = 7 WHERE iteration = 2"),
    "all of another run": schema("UPDATE parts SET origin = 7 WHERE name = 'configuration'"),
    "no driver": schema("DELETE FROM parts WHERE name = 'driver'"),
    "numbers for a driver": forged_part("driver", facts=lambda facts: {"host": 7}),
    "a driver that moves the cursor": forged_part("driver", facts=lambda facts: {"host": "\x1b[2J"}),
    "a negative pace": checkpoint(pace=[-1, -1]),
}


def npz(**arrays):
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


class Evil:
    """A pickle that runs a command."""

    def __reduce__(self):
        return os.system, ("touch executed",)


def zip_bomb():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(50_000_000))
    return stream.getvalue()


def npy_header(shape):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


FOREIGN = {
    "nothing": b"",
    "text": b"hello\n" * 100,
    "zeros": bytes(100_000),
    "noise": np.random.default_rng(1).bytes(100_000),
    "pickle": pickle.dumps(Evil()),
    "pickle in npz": npz(x=np.array([Evil()], dtype=object)),
    "zip bomb": zip_bomb(),
    "seven tebibytes of npy": npy_header("(1000000000000,)"),
    "negative npy": npy_header("(-4, -4)"),
    "SQLite's first line": b"SQLite format 3\0",
    "SQLite's first line and noise": b"SQLite format 3\0" + np.random.default_rng(2).bytes(8192),
    "JSON": b'{"method": "cma"}',
    "a script": b"#!/bin/sh\ntouch executed\n",
}


def refused(path):
    """How long it takes to refuse a file (CPU seconds) and the memory that takes (bytes), if it is not changed by
    that.
    """
    before = contents(path)
    took, most = [], 0
    for attempt in (sl.load, lambda path: sl.resume(path, valley)):
        began = time.process_time()
        with pytest.raises((sl.StoreError, ValueError)) as caught:
            attempt(path)
        took.append(time.process_time() - began)
        assert type(caught.value) is sl.StoreError or "`restarts` must be" in str(caught.value)
        assert str(path) in str(caught.value) or "`restarts`" in str(caught.value)
        tracemalloc.start()
        with pytest.raises((sl.StoreError, ValueError)):
            attempt(path)
        most = max(most, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert contents(path) == before
    return max(took), most


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_not_ours_is_refused(name, folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    path = folder / "foreign.db"
    path.write_bytes(FOREIGN[name])
    seconds, memory = refused(path)
    assert seconds < 0.1
    assert memory < 32e6
    assert not (tmp_path / "executed").exists()


READERS_CANNOT_SEE = {
    "no memory",
    "bytes too many",
    "another method",
    "another sample",
    "no driver",
    "numbers for a driver",
    "a driver that moves the cursor",
}


@pytest.mark.parametrize("name", FORGED)
def test_what_is_forged_is_refused(name, runs, folder):
    path = altered(runs, "over", "", bytes, folder)
    FORGED[name](path)
    if name in READERS_CANNOT_SEE:
        with pytest.raises((sl.StoreError, ValueError)):
            sl.resume(path, valley)
        return
    seconds, memory = refused(path)
    assert seconds < 0.1
    assert memory < 32e6


def killed_run(path, fun, checkpoints, **given):
    """A run that was killed in one of its last generations, with the state of its beginning or that of a later one."""
    calls = 0

    def killing(x):
        nonlocal calls
        if (calls := calls + 1) == 44:
            for end in ("", "-wal"):
                shutil.copyfile(f"{path}.whole{end}", f"{path}{end}")
        return fun(x)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(recorder, "WRITING", 1e9)
        patched.setattr(recorder, "REPLAY", -1.0 if checkpoints else np.inf)
        patched.setattr(recorder, "CHEAP", np.inf)
        sl.minimize(killing, np.ones(3), 0.5, rng=1, maxfevals=60, store=f"{path}.whole", **given)
    return path


def with_log(path, forge, target):
    """A copy of a file that was changed, as it is while the log has the change."""
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("SELECT count(*) FROM parts").fetchone()
        forge(path)
        for end in ("", "-wal"):
            shutil.copyfile(f"{path}{end}", f"{target}{end}")
    return target


FALSE_STARTS = {
    "x0": forged_part("configuration", data=lambda data: np.float64(1.5).tobytes() + data[8:]),
    "generator": rng_state(state={"state": 7, "inc": 9}),
}


@pytest.mark.parametrize("log", [False, True], ids=["file", "log"])
@pytest.mark.parametrize("given", [{}, {"surrogate": True}], ids=["plain", "surrogate"])
@pytest.mark.parametrize(("name", "checkpoints"), [("x0", False), ("x0", True), ("generator", False)])
def test_a_file_that_does_not_lead_to_its_points_is_refused_as_it_is(name, checkpoints, given, log, tmp_path):
    """Also if that is noticed only when the stored values are taken."""
    path = killed_run(tmp_path / "run.db", valley, checkpoints, **given)
    if log:
        path = with_log(path, FALSE_STARTS[name], tmp_path / "copy.db")
        assert path.with_name("copy.db-wal").stat().st_size > 0
    else:
        FALSE_STARTS[name](path)
    before, calls = contents(path), []
    with pytest.raises(sl.StoreError, match="does not reproduce the stored points"):
        sl.resume(path, lambda x: calls.append(1) or valley(x), maxfevals=1000)
    assert contents(path)[0] == before[0]
    assert (contents(path)[1] or b"") == (before[1] or b"")
    assert calls == []
    assert not is_locked(path)


# Forged spaces


SPACE = sl.Space(
    a=sl.Real(0, 1),
    n=sl.Integer(0, 9),
    k=sl.Choice("x", "y", "z"),
    m=sl.Choice(1, 2),
    o=sl.Choice(1, 2, 3, ordered=True),
)


def of_params(params):
    return params["a"] + abs(params["n"] - 4) + (params["k"] != "y") + params["m"]


@pytest.fixture(scope="module")
def mixed(folder):
    """Stored runs of a space, and of a vector with integers."""
    paths = folder / "space.db", folder / "vector.db"
    sl.minimize(of_params, SPACE, rng=6, maxfevals=80, store=paths[0])
    sl.minimize(valley, np.ones(3), 0.5, integrality=[0, 1, 1], rng=6, maxfevals=80, store=paths[1])
    return paths


def space(change):
    """Another description of the space."""
    return forged_part("configuration", facts=lambda facts: facts | {"space": change(facts["space"])})


def parameter(name, **changes):
    """Another description of a parameter."""
    return space(lambda facts: facts | {name: facts[name] | changes})


def points_like(value):
    """Points that have this value in all variables."""
    return forged_row("evaluations", lambda row: (*row[:4], np.full(len(row[4]) // 8, value).tobytes(), row[5]))


PROBABILITIES = "search.theta.choices.probabilities"
FORGED_SPACES = {
    "a list for a space": settings(space=[]),
    "no space": settings(space=None),
    "an empty space": settings(space={}),
    "numbers for parameters": space(lambda facts: dict.fromkeys(facts, 1)),
    "a parameter less": space(lambda facts: {name: facts[name] for name in facts if name != "n"}),
    "a parameter more": space(lambda facts: facts | {"more": {"type": "real", "low": 0.0, "high": 1.0, "log": False}}),
    "another order": space(lambda facts: dict(sorted(facts.items(), reverse=True))),
    "other names": settings(names=["b", "n", "k", "m", "o"]),
    "a name that moves the cursor": space(lambda facts: facts | {"\x1b[2J": 1}),
    "an unknown type": parameter("a", type="os.system"),
    "text for a bound": parameter("a", low="0"),
    "a bound beyond floats": parameter("a", high=10**400),
    "not a number for a bound": parameter("a", high=float("nan")),
    "a range that is none": parameter("n", low=10),
    "keys too many": parameter("a", more=1),
    "no values": parameter("k", values=[]),
    "a text for values": parameter("k", values="xyz"),
    "nested values": parameter("k", values=[[1], [2], [3]]),
    "values twice": parameter("k", values=["x", "x", "z"]),
    "values too many": parameter("k", values=list(range(10))),
    "values too few": parameter("k", values=["x", "y"]),
    "values that would be a large matrix": parameter("k", values=list(range(30_000))),
    "a long text": parameter("k", values=["x", "y", "z" * 1001]),
    "a start that is no value": parameter("k", start="w"),
    "another family of the space": settings(family="DiagonalGaussian"),
    "huge probabilities": shaped("checkpoint", PROBABILITIES, [10**6, 10**6]),
    "a negative widening": shaped("checkpoint", "search.theta.widening", [-2]),
    "probabilities that are none": number(PROBABILITIES, [[2.0, -1.0, 0.0], [0.5, 0.5, 0.0]]),
    "probabilities of another value": number(PROBABILITIES, [[0.5, 0.5, 0.0], [0.5, 0.4, 0.1]]),
    "no probabilities": number(PROBABILITIES, np.zeros((2, 3))),
    "probabilities that are no numbers": number(PROBABILITIES, np.full((2, 3), np.nan)),
    "no widening": number("search.theta.widening", np.zeros(3)),
    "no probability of leaving": number("search.theta.leaving", np.full(3, np.nan)),
    "another margin": number("search.theta.margin", 0.0),
    "settled for less than no time": number("standing.settled_for", -1),
    "more changes than there are": number("sweep.size", 10**6),
    "a number of changes below 0": number("sweep.size", -1),
    "changes that were tried before the first one": number("sweep.position", -1),
    "changes that were tried without a sweep": number("sweep.position", 1),
    "points outside of the space": points_like(1e9),
    "points without values": points_like(0.5),
    "points that are no numbers": points_like(np.nan),
}
FORGED_VECTORS = {
    "a space from nowhere": settings(space=SPACE.describe()),
    "a matrix for integrality": shaped("configuration", "integrality", [3, 3], "bool"),
    "a long integrality": shaped("configuration", "integrality", [10**12], "bool"),
    "floats for integrality": shaped("configuration", "integrality", [3]),
    "integrality elsewhere": forged_part("configuration", data=lambda data: data[:-3] + b"\1\0\0"),
    "no integrality": forged_part(
        "configuration",
        layout=lambda rows: [row for row in rows if row[0] != "integrality"],
        data=lambda data: data[:-3],
    ),
}


def forged_copy(source, forge, folder):
    path = folder / "forged.db"
    shutil.copyfile(source, path)
    forge(path)
    return path


@pytest.mark.parametrize("name", [*FORGED_SPACES, *FORGED_VECTORS])
def test_a_forged_space_is_refused(name, mixed, folder):
    which = name in FORGED_VECTORS
    path = forged_copy(mixed[which], (FORGED_SPACES | FORGED_VECTORS)[name], folder)
    before = contents(path)
    for attempt in (sl.load, lambda path: sl.resume(path, valley if which else of_params, maxfevals=100)):
        began = time.process_time()
        tracemalloc.start()
        with pytest.raises(sl.StoreError, match=r"forged\.db"):
            attempt(path)
        memory = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert time.process_time() - began < 2
        assert memory < 32e6
    assert contents(path) == before


def test_healthy_spaces_are_not_refused(mixed, folder):
    """The negative control."""
    for source, fun in zip(mixed, (of_params, valley), strict=True):
        path = forged_copy(source, lambda path: None, folder)
        assert sl.resume(path, fun, maxfevals=100).nfev > sl.load(source).result.nfev


@pytest.mark.parametrize("name", ["missing", "directory", "pipe", "unreadable"])
def test_what_is_no_file_is_refused(name, tmp_path):
    path = tmp_path / "run.db"
    if name == "directory":
        path.mkdir()
    if name == "pipe":
        os.mkfifo(path)
    if name == "unreadable":
        path.symlink_to(path)
    for attempt in (sl.load, lambda path: sl.resume(path, valley)):
        with pytest.raises(sl.StoreError, match=r"run\.db"):
            attempt(path)


def test_the_healthy_file_is_not_refused(runs, folder):
    """The negative control of all above."""
    path = altered(runs, "over", "", bytes, folder)
    assert sl.load(path).settings.popsize == 6
    assert verdict(path, runs["end"]) == "went on"
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION,)
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
