"""The table of cases: what is given or what happens, what a library needs to be asked at all, and how it ends if all is
well.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from faults import misuse, scenes
from faults.damage import DAMAGES, Damage
from faults.library import Given
from faults.objectives import INF, NAN
from faults.supervise import Fault
from faults.verdict import Outcome, Rules

REFUSED = frozenset({Outcome.CLEAR})
FINE = frozenset({Outcome.WORKS})
TOLERANT = REFUSED | FINE
LATER = frozenset({Outcome.LATE})
ENDED = frozenset({Outcome.STOPPED})
"""TOLERANT is for what can be read as something sensible, and what some library's documentation allows."""
HONEST = frozenset({Outcome.NO_SUCCESS, Outcome.LATE})

WORDS = {
    "x0": ("x0", "mean", "initial", "start", "init"),
    "sigma0": ("sigma", "step", "std", "deviation", "rhobeg", "rho"),
    "bounds": ("bound", "lower", "upper", "low", "high", "limits", "x0"),
    "popsize": ("pop", "lambda"),
    "maxfevals": ("max", "budget", "n_trials", "evaluations"),
    "maxiter": ("maxiter", "iterations"),
    "ftarget": ("ftarget", "target"),
    "seed": ("seed", "rng", "random"),
    "method": ("method", "strategy", "sampler", "optimizer", "registry"),
    "restarts": ("restart",),
    "callback": ("callback", "callable"),
    "vectorized": ("vectorized",),
    "workers": ("workers", "n_jobs", "processes"),
    "timeout": ("timeout",),
    "on_error": ("on_error",),
    "fun": ("fun", "objective", "callable"),
    "keyword": ("popsizee", "keyword"),
    "send": ("pickle", "sent to other processes", "top level"),
    "file": (
        "damaged",
        "not a",
        "cannot",
        "corrupt",
        "malformed",
        "truncated",
        "no such file",
        "does not exist",
        "unable to open",
        "is a directory",
        "version",
        "driven",
        "locked",
        "unpickling",
        "ran out of input",
        "invalid load key",
        "name of a file",
    ),
    "tell": ("tell", "ask", "value", "points", "solutions", "number", "trial", "candidate", "read-only"),
}
"""Words of which an error that is clear has one: the argument by any of its names, or what is wrong with it."""


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    group: str
    name: str
    right: frozenset[Outcome]
    needs: tuple[str, ...] = ()
    given: Given = field(default_factory=Given)
    behaviour: str = "bowl"
    at: int = 20
    rules: Rules = field(default_factory=Rules)
    limit: float = 4.0
    fault: Fault | None = None
    fun: Callable[[Any], Any] | None = None  # what is given instead of the objective
    resumes: int = 0  # how often the run is killed and resumed
    damage: Damage | None = None
    misuse: Callable[..., None] | None = None
    scene: scenes.Scene | None = None
    drivers: int = 1


def given(
    group: str, argument: str, right: frozenset[Outcome], values: Iterable[tuple[str, Any]], **more: Any
) -> list[Case]:
    """A case for each value of one argument."""
    return [
        Case(
            group,
            f"{argument} = {name}",
            right,
            (argument,),
            Given({argument: value}),
            rules=Rules(words=WORDS[argument]),
            **more,
        )
        for name, value in values
    ]


def plain(argument: str, right: frozenset[Outcome], *values: Any) -> list[Case]:
    """A case for each value that is its own name."""
    return given("arguments", argument, right, [(repr(value), value) for value in values])


STARTS = [
    *given(
        "x0",
        "x0",
        REFUSED,
        [
            ("[nan, 1]", [NAN, 1.0]),
            ("[1, inf]", [1.0, INF]),
            ("[-inf, 1]", [-INF, 1.0]),
            ("all NaN", np.full(2, NAN)),
            ("[]", []),
            ("empty (0, 2)", np.empty((0, 2))),
            ("'origin'", "origin"),
            ("['a', 'b']", ["a", "b"]),
            ("[1j, 1]", [1j, 1.0]),
            ("[1, None]", [1.0, None]),
            ("object array with None", np.array([1.0, None], dtype=object)),
            ("2×2 array", np.ones((2, 2))),
            ("ragged", [[1.0], [1.0, 2.0]]),
            ("masked array", np.ma.masked_array([1.0, 1.0], mask=[False, True])),
            ("dict", {"a": 1.0, "b": 1.0}),
            ("set", {1.0, 2.0}),
            ("dates", np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]")),
            ("10**400", [10**400, 1]),
            ("the function len", len),
        ],
    ),
    *given(
        "x0",
        "x0",
        TOLERANT,
        [
            ("None", None),
            ("['1', '2']", ["1", "2"]),
            ("[[1, 1]]", [[1.0, 1.0]]),
            ("2×1×1 array", np.ones((2, 1, 1))),
            ("a generator", (value for value in (1.0, 1.0))),
        ],
    ),
    *given(
        "x0",
        "x0",
        FINE,
        [
            ("ints", [1, 1]),
            ("tuple", (1.0, 1.0)),
            ("float32", np.ones(2, dtype=np.float32)),
            ("Fortran slice", np.ones((2, 3))[:, 1]),
        ],
    ),
    *given(
        "sigma0",
        "sigma0",
        REFUSED,
        [
            ("0", 0.0),
            ("-1", -1.0),
            ("nan", NAN),
            ("inf", INF),
            ("'wide'", "wide"),
            ("1j", 1j),
            ("[]", []),
            ("[0.5, 0]", [0.5, 0.0]),
            ("[0.5, -1]", [0.5, -1.0]),
            ("[0.5, nan]", [0.5, NAN]),
            ("three numbers", [0.5, 0.5, 0.5]),
            ("2×2 array", np.eye(2)),
            ("dict", {"a": 1}),
            ("1e305", 1e305),
        ],
    ),
    *given("sigma0", "sigma0", TOLERANT, [("None", None), ("'0.5'", "0.5")]),
]

BOUNDS = [
    *given(
        "bounds",
        "bounds",
        REFUSED,
        [
            ("crossed", [(3.0, -3.0), (-3.0, 3.0)]),
            ("NaN below", [(NAN, 3.0), (-3.0, 3.0)]),
            ("NaN above", [(-3.0, 3.0), (-3.0, NAN)]),
            ("all NaN", [(NAN, NAN), (NAN, NAN)]),
            ("strings", [("a", "b"), ("c", "d")]),
            ("a number", 3.0),
            ("a string", "unit"),
            ("triples", [(-3.0, 0.0, 3.0), (-3.0, 0.0, 3.0)]),
            ("complex", [(-3j, 3j), (-3.0, 3.0)]),
            ("low = +inf", [(INF, INF), (-3.0, 3.0)]),
            ("high = −inf", [(-INF, -INF), (-3.0, 3.0)]),
        ],
    ),
    *given("bounds", "bounds", TOLERANT, [("[]", [])]),
    *[
        Case("bounds", name, REFUSED, ("bounds", "x0"), Given(bounds=box, x0=[1.0, 1.0]), rules=Rules(WORDS["bounds"]))
        for name, box in {
            "x0 below": [(1.5, 3.0), (-3.0, 3.0)],
            "x0 above": [(-3.0, 3.0), (-3.0, 0.5)],
            "one pair for two": [(-3.0, 3.0)],
            "three pairs for two": [(-3.0, 3.0)] * 3,
        }.items()
    ],
    *[
        Case("bounds", name, FINE, ("bounds", "x0"), Given(bounds=box, x0=[1.0, 1.0]), rules=Rules(bounds=box))
        for name, box in {
            "a box": [(-3.0, 3.0), (-3.0, 3.0)],
            "x0 on the bound": [(-1.0, 1.0), (-1.0, 1.0)],
            "optimum on the bound": [(0.3, 2.0), (-0.2, 2.0)],
            "a wide box": [(-100.0, 100.0), (-100.0, 100.0)],
        }.items()
    ],
]

ARGUMENTS = [
    *plain("popsize", REFUSED, 0, -3, NAN, 1j, INF, {}, 10**12, 10**30),
    *plain("popsize", TOLERANT, 2.5, "8", [8]),
    *plain("maxfevals", REFUSED, -1, NAN, "many", [100], 1j),
    *plain("maxfevals", TOLERANT, 100.5),
    *plain("maxfevals", TOLERANT | HONEST, 0),
    *plain("maxiter", REFUSED, -1, NAN, "many", [10], 1j),
    *plain("maxiter", TOLERANT | HONEST, 0),
    *plain("ftarget", REFUSED, NAN, "low", 1j, [1.0, 2.0]),
    *plain("seed", REFUSED, -1, 1.5, "seed", 1j),
    *plain("seed", TOLERANT, NAN, {}),
    *plain("seed", FINE, None),
    *plain("method", REFUSED, "bfgs", "", 3),
    *plain("method", TOLERANT, None),
    *plain("restarts", REFUSED, "often", NAN),
    *plain("restarts", TOLERANT, -1, 1.5),
    *plain("callback", REFUSED, 3, "print"),
    *plain("workers", REFUSED, 2.5, "two", NAN),
    *plain("workers", TOLERANT, 0, -7),
    *plain("timeout", REFUSED, 0, -1, NAN, "long"),
    *plain("on_error", REFUSED, "ignore", 3),
    *plain("vectorized", REFUSED, "yes"),
    *plain("vectorized", TOLERANT, None),
    Case(
        "arguments", "a keyword with a slip", REFUSED, ("keywords",), Given(popsizee=8), rules=Rules(WORDS["keyword"])
    ),
    *[
        Case(
            "arguments", f"objective = {value!r}", REFUSED, fun=lambda _, value=value: value, rules=Rules(WORDS["fun"])
        )
        for value in (None, 3.0, "bowl")
    ],
]


def valued(right: frozenset[Outcome], *behaviours: str, **rules: Any) -> list[Case]:
    """A case for each behaviour of the objective."""
    return [
        Case("values", f"objective returns {name}", right, behaviour=name, rules=Rules(**rules)) for name in behaviours
    ]


def does(right: frozenset[Outcome], *behaviours: str, **rules: Any) -> list[Case]:
    return [Case("values", f"objective {name}", right, behaviour=name, rules=Rules(**rules)) for name in behaviours]


NOT_ONE_NUMBER = (
    "None",
    "str",
    "bytes",
    "complex",
    "complex without imaginary part",
    "array of 2",
    "2×2 array",
    "list of 2",
    "empty array",
)
VALUES = [
    *valued(HONEST, *NOT_ONE_NUMBER, "empty list", "dict", "function", "the point"),
    *valued(
        LATER | FINE,
        "None at evaluation 20",
        "str at evaluation 20",
        "array at evaluation 20",
        "complex at evaluation 20",
    ),
    *valued(HONEST, "NaN", "+inf", "−inf"),
    *valued(
        FINE,
        "NaN at evaluation 20",
        "+inf at evaluation 20",
        "NaN now and then",
        "NaN every other",
        "NaN first",
        "+inf now and then",
    ),
    *valued(FINE, "NaN in half of the space", "1e300 in half of the space"),
    *valued(FINE, "0-d array", "longdouble", "Decimal", "Fraction"),
    *valued(FINE | HONEST, "1-element array", "1-element list"),
    *valued(FINE, "float32", "float16", precision=2e-3),
    *valued(FINE, "int", "scaled to 1e300", "scaled to 1e-300", precision=INF),
    *valued(FINE | HONEST, "constant", anywhere=True),
    *valued(FINE | HONEST, "random", anywhere=True),
    *does(FINE | LATER, "mutates x", "mutates earlier x"),
    *does(
        FINE,
        "seeds the global generator",
        "makes float warnings errors",
        "changes the working directory",
        "ignores signals",
    ),
    *does(FINE, "closes stdout", "closes all files", "writes into all files", "leaves a thread"),
    *does(FINE, "forks", counts=True, in_flight=1),
    Case("values", "objective falls without end", HONEST, ("sigma0",), behaviour="linear"),
    Case(
        "values",
        "objective has the wrong signature",
        LATER | REFUSED,
        fun=lambda fun: lambda: fun([0, 0]),
        rules=Rules(("argument",)),
    ),
]

RAISED = (
    "ValueError",
    "Own",
    "KeyError",
    "AssertionError",
    "StopIteration",
    "GeneratorExit",
    "MemoryError",
    "RecursionError",
)
RAISED += ("ZeroDivisionError", "FloatingPointError", "LinAlgError", "OSError", "SystemExit")
RAISES = [
    *[
        Case("exceptions", f"{name} at evaluation 20", ENDED, behaviour=name, rules=Rules(counts=True))
        for name in RAISED
    ],
    *[
        Case("exceptions", f"Own at evaluation {at}", ENDED, behaviour="Own", at=at, rules=Rules(counts=True))
        for at in (2, 10, 15)
    ],
    Case(
        "exceptions",
        "memory runs out at evaluation 20",
        ENDED,
        behaviour="runs out of memory",
        rules=Rules(counts=True),
    ),
    Case(
        "exceptions",
        "recursion without end at evaluation 20",
        ENDED,
        behaviour="recurses without end",
        rules=Rules(counts=True),
    ),
    Case("exceptions", "callback raises", LATER, ("callback",), Given(callback=misuse.raise_own)),
]

WORKING = {"limit": 6.0, "needs": ("workers",)}
TWO = Given(workers=2)


def worked(name: str, right: frozenset[Outcome], behaviour: str, given: Given = TWO, **more: Any) -> Case:
    """A case with two workers."""
    rules = Rules(counts=True, ends=right == ENDED, words=WORDS["send"], in_flight=2)
    return Case("workers", name, right, **({"given": given, "behaviour": behaviour, "rules": rules} | WORKING | more))


LATE = Given(workers=2, timeout=1.0)
TIMED = ("workers", "timeout")
WORKERS = [
    worked("nothing happens", FINE, "bowl"),
    worked("worker: os._exit(3) once", FINE, "exit once"),
    worked("worker: os._exit(0) once", FINE, "exit 0 once"),
    worked("worker: SIGKILL once", FINE, "kill once"),
    worked("worker: segfault once", FINE, "segfault once"),
    worked("worker: abort once", FINE, "abort once"),
    worked("worker: os._exit(3) in a part of the space", FINE, "exit beyond"),
    worked("worker: SIGKILL in a part of the space", FINE, "kill beyond"),
    worked("worker: segfault in a part of the space", FINE, "segfault beyond"),
    worked("worker hangs once, timeout", FINE, "hang once", LATE, needs=TIMED),
    worked("worker spins once, timeout", FINE, "spin once", LATE, needs=TIMED),
    worked("worker hangs with a child, timeout", FINE, "hang with a child once", LATE, needs=TIMED),
    worked(
        "worker hangs in a part of the space, timeout", FINE, "hang beyond", Given(workers=2, timeout=0.3), needs=TIMED
    ),
    worked("objective cannot be pickled", REFUSED, "lambda", fun=lambda fun: lambda x: fun(x)),
    worked("exception", ENDED, "Own"),
    worked("exception that cannot be pickled", ENDED, "Unsendable"),
    worked("exception that cannot be unpickled", ENDED, "Unmakeable"),
    worked("SystemExit", ENDED, "SystemExit"),
    worked("GeneratorExit", ENDED, "GeneratorExit"),
    worked("exception, on_error = 'nan'", FINE, "Own", Given(workers=2, on_error="nan"), needs=("workers", "on_error")),
    worked(
        "exception, on_error = 'retry'", FINE, "Own", Given(workers=2, on_error="retry"), needs=("workers", "on_error")
    ),
    worked("NaN now and then", FINE, "NaN now and then"),
    worked("strings", LATER, "str", rules=Rules()),
    worked("worker closes all files once", FINE, "closes all files"),
    worked("worker writes into all files once", FINE, "writes into all files"),
    worked("worker forks once", FINE, "forks"),
    worked("worker leaves a thread", FINE, "leaves a thread"),
    worked("worker ignores signals", FINE, "ignores signals"),
    worked("worker: SIGSTOP once, timeout", FINE, "stop once", LATE, needs=TIMED),
    worked("memory runs out", ENDED, "runs out of memory"),
    worked("recursion without end", ENDED, "recurses without end"),
    worked("a value that cannot be pickled", LATER, "unpicklable", rules=Rules()),
    worked("a float whose unpickling hangs", FINE | LATER, "a float that hangs when unpickled"),
    worked("a value of 100 MB", LATER, "100 MB", rules=Rules(), limit=10.0),
]

BATCHED = (
    "batch, one too few",
    "batch, one too many",
    "batch, a column",
    "batch, one number",
    "batch, None",
    "batch, strings",
)
BATCHES = [
    Case("values", "all at once", FINE, ("vectorized",), Given(vectorized=True), "batch"),
    *[
        Case("values", f"all at once: {name[7:]}", LATER, ("vectorized",), Given(vectorized=True), name)
        for name in BATCHED
    ],
    Case("values", "all at once: NaN", HONEST, ("vectorized",), Given(vectorized=True), "batch, NaN"),
]


def stopped(name: str, fault: Fault, **more: Any) -> Case:
    """A run that a signal ends."""
    arguments = {"behaviour": "slow", "limit": 5.0} | more
    return Case("signals", name, ENDED, fault=fault, rules=Rules(counts=True, ends=True, in_flight=2), **arguments)


SIGNALS = [
    stopped("Ctrl-C", Fault(signal.SIGINT, 15)),
    stopped("Ctrl-C at the first evaluation", Fault(signal.SIGINT, 1)),
    stopped("Ctrl-C twice", Fault(signal.SIGINT, 15, again=0.05)),
    stopped("Ctrl-C while the objective hangs", Fault(signal.SIGINT, 20), behaviour="hang once"),
    stopped("SIGTERM", Fault(signal.SIGTERM, 15)),
    stopped("Ctrl-C, two workers", Fault(signal.SIGINT, 15), given=TWO, **WORKING),
    stopped(
        "Ctrl-C while a worker hangs", Fault(signal.SIGINT, 20), given=TWO, **(WORKING | {"behaviour": "hang once"})
    ),
    stopped("Ctrl-C twice, two workers", Fault(signal.SIGINT, 15, again=0.05), given=TWO, **WORKING),
    stopped("SIGTERM, two workers", Fault(signal.SIGTERM, 15), given=TWO, **WORKING),
]

KILLS = [
    Case(
        "kill -9 and resume",
        f"kill -9 at evaluation {calls}{', two workers' if how else ''}{' and again' if times > 1 else ''}, then "
        "resume",
        FINE,
        ("stored_workers",) if how else ("store",),
        Given(maxfevals=150, **how),
        behaviour="slower",
        rules=Rules(counts=True, in_flight=times * how.get("workers", 1)),
        limit=10.0,
        fault=Fault(signal.SIGKILL, calls),
        resumes=times,
    )
    for calls, times, how in (
        (9, 1, {}),
        (27, 1, {}),
        (64, 1, {}),
        (40, 2, {}),
        (40, 1, {"workers": 2}),
        (40, 2, {"workers": 2}),
    )
]

FILES = [
    Case(
        "files",
        name,
        frozenset(damage.right),
        damage.needs,
        Given(maxfevals=30),
        damage=damage,
        rules=Rules(WORDS["file"], anywhere=True),
    )
    for name, damage in DAMAGES.items()
]
FILES.append(
    Case(
        "files",
        "a second driver",
        TOLERANT,
        ("shared_store",),
        behaviour="slow",
        drivers=2,
        limit=8.0,
        rules=Rules(WORDS["file"]),
    )
)


def staged(
    group: str, name: str, right: frozenset[Outcome], scene: scenes.Scene, needs: tuple[str, ...], **more: Any
) -> Case:
    """A case in some surroundings."""
    return Case(group, name, right, needs, scene=scene, **({"limit": 8.0} | more))


SHUT = Rules(counts=True, in_flight=2)
SURROUNDINGS = [
    staged(
        "surroundings",
        "two workers in a daemonic process (multiprocessing.Pool)",
        TOLERANT,
        scenes.in_a_daemonic_process,
        ("workers",),
        given=TWO,
        rules=Rules(("daemonic",)),
    ),
    staged(
        "surroundings",
        "two workers with three file descriptors left",
        TOLERANT,
        scenes.with_few_descriptors,
        ("workers",),
        given=TWO,
        rules=Rules(("descriptor", "open files")),
    ),
    staged(
        "surroundings",
        "main ends, a daemon thread has workers",
        FINE,
        scenes.in_a_daemon_thread,
        ("workers",),
        given=TWO,
        behaviour="slower",
    ),
    Case(
        "surroundings",
        "executor is shut down",
        ENDED,
        ("executor",),
        Given(executor=2),
        "shuts down its executor",
        rules=SHUT,
        limit=6.0,
    ),
    *[
        staged("surroundings", name, FINE, scene, ("progress",), given=Given(progress=True))
        for name, scene in {
            "progress shown, stdout and stderr closed": scenes.with_closed_streams,
            "progress shown, nobody reads stdout and stderr": scenes.with_broken_pipes,
            "progress shown, sys.stdout and sys.stderr closed": scenes.with_closed_files,
        }.items()
    ],
    staged("surroundings", "a callback keeps results", FINE, scenes.with_kept_results, ("snapshots",)),
]
SOME = Given(maxfevals=90)
STORED = [
    staged("stored runs", name, right, scene, **({"needs": ("store",), "given": SOME} | more))
    for name, right, scene, more in (
        (
            "a leftover journal of another run",
            TOLERANT,
            scenes.with_leftovers_of_another,
            {
                "rules": Rules((*WORDS["file"], "left over", "-wal", "journal"), anywhere=True),
                "given": Given(maxfevals=40),
                "limit": 30.0,
            },
        ),
        (
            "resumed by a hard link",
            TOLERANT,
            scenes.by_a_hard_link,
            {"rules": Rules((*WORDS["file"], "hard link"), anywhere=True)},
        ),
        (
            "the file is deleted during the run",
            FINE | ENDED,
            scenes.with_its_file_deleted,
            {"rules": Rules(anywhere=True, counts=True, in_flight=1)},
        ),
        (
            "files limited to 64 kB, then resumed",
            FINE,
            scenes.with_files_limited,
            {"rules": Rules(anywhere=True, counts=True, in_flight=1), "given": Given(maxfevals=300)},
        ),
        (
            "relative name, objective changes the folder",
            FINE,
            scenes.with_a_relative_name,
            {
                "rules": Rules(anywhere=True, counts=True),
                "behaviour": "moves to another folder",
                "needs": ("store", "database"),
            },
        ),
        (
            "the name is that of a folder",
            REFUSED | LATER,
            scenes.named("."),
            {"rules": Rules(WORDS["file"], anywhere=True)},
        ),
        (
            "NUL in the name",
            REFUSED | LATER,
            scenes.named("a\0b"),
            {"rules": Rules((*WORDS["file"], "null", "nul "), anywhere=True)},
        ),
        (
            "a name that is not UTF-8",
            TOLERANT | LATER,
            scenes.named("\udcff.db"),
            {"rules": Rules((*WORDS["file"], "utf"), anywhere=True)},
        ),
    )
]

MISUSES = [
    Case("ask and tell", name, right, ("ask_tell",), misuse=how, rules=Rules(WORDS["tell"], timeless=True))
    for name, (how, right) in {
        "tell before ask": (misuse.told_before_asked, REFUSED),
        "tell twice": (misuse.told_twice, REFUSED),
        "tell one value too few": (misuse.told_too_few, TOLERANT),
        "tell one value too many": (misuse.told_too_many, REFUSED),
        "tell None": (misuse.told_none, REFUSED),
        "tell None for one": (misuse.told_one_none, TOLERANT),
        "tell strings": (misuse.told_strings, REFUSED),
        "tell complex values": (misuse.told_complex, REFUSED),
        "tell pairs": (misuse.told_pairs, TOLERANT),
        "tell NaN for one": (misuse.told_one_nan, FINE),
        "tell NaN for all, once": (misuse.told_nan, FINE),
        "tell +inf for all, once": (misuse.told_inf, FINE),
        "tell points that were not asked": (misuse.told_foreign, TOLERANT),
        "tell NaN as points": (misuse.told_nan_points, REFUSED),
        "tell after asking twice": (misuse.told_the_first, TOLERANT),
        "tell in another order": (misuse.told_turned, FINE),
        "write into what was asked": (misuse.told_overwritten, TOLERANT | LATER),
    }.items()
]

CASES: list[Case] = [
    *STARTS,
    *BOUNDS,
    *ARGUMENTS,
    *VALUES,
    *BATCHES,
    *RAISES,
    *WORKERS,
    *SIGNALS,
    *KILLS,
    *FILES,
    *SURROUNDINGS,
    *STORED,
    *MISUSES,
]
GROUPS = list(dict.fromkeys(case.group for case in CASES))
