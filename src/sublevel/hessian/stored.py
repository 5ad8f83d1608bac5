"""The curvature at the minimum of a stored run, as a part of its file."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.evaluation.failures import printable
from sublevel.hessian.estimate import LowerPoint
from sublevel.hessian.frame import find_labels, find_names, find_space
from sublevel.hessian.result import Curvature
from sublevel.run.diagnosis import Finding
from sublevel.run.result import Result
from sublevel.store.errors import FormatError
from sublevel.store.file import File, insert_rows
from sublevel.store.lock import Lock
from sublevel.store.reader import Reading
from sublevel.store.recorder import part
from sublevel.store.serialize import as_dict, as_list, unpack
from sublevel.validation import as_names

PART = "curvature"
VECTORS = "x", "centre", "gradient", "gradient_error"
MATRICES = "hessian", "hessian_error", "hess_inv", "hess_inv_error"
EIGENVALUES = "curvatures", "curvatures_error"
NUMBERS = "fun", "delta_f", "noise", "lack"
LONGEST_SENTENCE = 5000
INVALID = "its curvature is invalid"


def store_curvature(path: Path, result: Result) -> None:
    """Write the curvature of the result of a stored run into its file; StoreError if the file is in use or missing."""
    found = result.curvature
    if found is None:
        return
    facts = {
        "kind": found.kind,
        "n_residuals": found.n_residuals,
        "dof": found.dof,
        "nfev": found.nfev,
        "is_noisy": found.is_noisy,
        "directions": found.curvatures.size,
        "problems": [[problem.name, problem.sentence, problem.numbers] for problem in found.problems],
        "has_lower_point": found.lower_point is not None,
        "run_nfev": result.nfev - found.nfev,
    }
    row = part(PART, facts, _arrays(found))
    with closing(Lock(path)):
        file = File(path, writing=True)
        try:
            file.write([insert_rows("parts", [row], file.origin)], sync=True)
        finally:
            file.close(whole=True)


def _arrays(found: Curvature) -> dict[str, Array]:
    """The arrays of a curvature by name; numbers, of which NaN must be kept, are one of them."""
    d = found.x.size
    arrays: dict[str, Array] = {name: getattr(found, name) for name in (*VECTORS, *MATRICES, *EIGENVALUES)}
    lower = LowerPoint(np.full(d, np.nan), np.nan) if found.lower_point is None else found.lower_point
    numbers = np.array([*(getattr(found, name) for name in NUMBERS), lower.fun], dtype=np.float64)
    box = np.stack([np.broadcast_to(bound, d) for bound in found.box]).astype(np.float64)
    flags = np.stack([found.free, np.broadcast_to(found.is_log, d)]).astype(np.float64)
    return {**arrays, "directions": found.directions, "numbers": numbers, "box": box, "flags": flags, "lower": lower.x}


def _template(d: int, k: int) -> dict[str, Array]:
    """Arrays like those of a curvature of d variables with k directions."""
    shapes = {**dict.fromkeys(VECTORS, (d,)), **dict.fromkeys(MATRICES, (d, d)), **dict.fromkeys(EIGENVALUES, (k,))}
    shapes |= {"directions": (d, k), "numbers": (len(NUMBERS) + 1,), "box": (2, d), "flags": (2, d), "lower": (d,)}
    return {name: np.empty(shape) for name, shape in shapes.items()}


def add_stored_curvature(reading: Reading, result: Result) -> None:
    """Add the stored curvature, without its objective, to the result so far, if it belongs to this result."""
    found = read_curvature(reading, result, result.nfev)
    if found is not None:
        result.update(curvature=found, hess_inv=found.hess_inv, nfev=result.nfev + found.nfev)


def read_curvature(reading: Reading, source: object, nfev: int) -> Curvature | None:
    """The stored curvature; None if there is none, or if it is not that of the run after `nfev` evaluations.

    `source` is the result or the optimizer of the run, from which names and spaces are taken.
    """
    if not reading.file.has_part(PART):
        return None
    facts, layout, data = reading.file.part(PART)
    if _count(facts, "run_nfev") != nfev:
        return None
    d, k, kind = reading.problem.x0.size, _count(facts, "directions"), facts.get("kind")
    if k > d or 8 * (4 * d * d + d * k) > len(data):
        raise FormatError(INVALID)
    arrays = unpack(_template(d, k), layout, data)
    free, is_log = arrays["flags"] == 1
    residuals = None if facts.get("n_residuals") is None else _count(facts, "n_residuals")
    is_meant = kind in (None, "nll") if residuals is None else kind == "least_squares" and residuals > k
    if not is_meant or np.count_nonzero(free) != k:
        raise FormatError(INVALID)
    *numbers, lower_fun = arrays["numbers"].tolist()
    names = as_names(find_names(source), d)
    labels = find_labels(source, names)
    lower, upper = (np.array(-np.inf), np.array(np.inf)) if labels.space is None else labels.space.box
    if not np.all(np.isfinite(arrays["x"]) & (lower <= arrays["x"]) & (arrays["x"] <= upper)):
        raise FormatError(INVALID)
    known = {name: arrays[name] for name in (*VECTORS, *MATRICES, *EIGENVALUES, "directions")}
    return Curvature(
        **known,
        **dict(zip(NUMBERS, numbers, strict=True)),
        free=free,
        dof=_count(facts, "dof"),
        nfev=_count(facts, "nfev"),
        kind=None if kind is None else str(kind),
        n_residuals=residuals,
        problems=_problems(facts.get("problems")),
        lower_point=LowerPoint(arrays["lower"], lower_fun) if facts.get("has_lower_point") is True else None,
        names=names,
        box=(arrays["box"][0], arrays["box"][1]),
        is_log=is_log,
        is_noisy=facts.get("is_noisy") is True,
        held=labels.held(arrays["x"]),
        space=find_space(source),
        constraints=getattr(source, "constraints", None) if isinstance(source, Result) else None,
    )


def _count(facts: dict[str, object], name: str) -> int:
    count = facts.get(name)
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < 2**53:
        raise FormatError(INVALID)
    return count


def _problems(given: object) -> tuple[Finding, ...]:
    """Findings without control characters."""
    found = list[Finding]()
    for entry in as_list(given, None, INVALID):
        name, sentence, numbers = as_list(entry, 3, INVALID)
        values = as_dict(numbers, INVALID)
        are_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values.values())
        if not isinstance(name, str) or not isinstance(sentence, str) or not are_numbers:
            raise FormatError(INVALID)
        known = {key: float(str(value)) for key, value in values.items()}
        found.append(Finding(printable(name), printable(sentence, LONGEST_SENTENCE), known))
    return tuple(found)
