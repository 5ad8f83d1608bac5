"""The result of a run as text and as JSON."""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sublevel.summaries import short_params

if TYPE_CHECKING:
    from sublevel.engine.arrays import Array
    from sublevel.hessian.result import Curvature
    from sublevel.run.diagnosis import Finding
    from sublevel.run.result import Result

MOST_PARAMS = 1000
"""Number of parameters up to which all are printed."""


def result_as_text(result: Result, seconds: float, figure: Path | None) -> str:
    """The result in lines. The line of `x` can be passed to --x0; parameters of a space have a line by name."""
    deviations = ",".join(f"{deviation:.3g}" for deviation in user_deviations(result))
    lines = [
        result.message,
        f"fun    {result.fun!r}" if "fun_error" not in result else f"fun    {result.fun_text()}",
        f"x      {','.join(map(repr, result.x.tolist()))}",
        f"std    {deviations} (search distribution, not error bars)",
        f"spent  {_effort(result)}, {seconds:.1f} s",
    ]
    if result.space is not None:
        lines[2] = f"params {short_params(result.params, MOST_PARAMS)}"
        widths = zip(result.space.names, user_deviations(result), strict=True)
        shown = ", ".join(f"{name}={width:.3g}" for name, width in widths if width > 0)
        lines[3] = f"std    {shown} (search distribution, not error bars)"
    elif result.history.given_names is not None:
        lines.insert(2, f"names  {','.join(result.history.given_names)}")
    if "maxcv" in result:
        values = " ".join(",".join(f"{value:.6g}" for value in part) for part in result.constr)
        lines.insert(2, f"maxcv  {result.maxcv:.3g}, constraints {values}")
    if result.get("multipliers"):
        values = " ".join(",".join(f"{value:.6g}" for value in part) for part in result.multipliers or ())
        lines.insert(3, f"multipliers {values}")
    lines += [f"note   {finding}" for finding in result.diagnosis]
    lines += [f"plot   {figure}"] if figure else []
    return "\n".join(lines if result.curvature is None else [*lines, "", result.curvature.summary()])


def search_nfev(result: Result) -> int:
    """The number of evaluations without those for error bars."""
    return result.nfev - (0 if result.curvature is None else result.curvature.nfev)


def _effort(result: Result) -> str:
    """The numbers of evaluations, generations and restarts; `nfev` includes the evaluations for error bars."""
    nfev = search_nfev(result)
    of_error_bars, effort = result.nfev - nfev, f"{nfev} evaluations in {result.nit} generations"
    restarts = f", {result.restarts} restarts" if result.restarts else ""
    return f"{effort}{restarts}" + (f", {of_error_bars} evaluations for error bars" if of_error_bars else "")


def result_as_json(result: Result, seconds: float, raised: Exception | None) -> dict[str, object]:
    """The result as values for `json.dumps`; numbers that are not finite are None."""
    names = ("fun", "nfev", "nit", "restarts", "success", "status", "message", "reasons")
    facts: dict[str, object] = {
        **{name: result[name] for name in names},
        "x": result.x.tolist(),
        "mean": result.mean.tolist(),
        "deviations": user_deviations(result).tolist(),
        "names": [result.history.name(i) for i in range(result.x.size)],
        "params": None if result.space is None else describe_params(result.params),
        "seconds": round(seconds, 3),
        "diagnosis": _findings_as_json(result.diagnosis),
        "failures": dict(result.failures.counts),
        "error_bars": None if result.curvature is None else _error_bars_as_json(result.curvature),
        "error": None if raised is None else "".join(traceback.format_exception_only(raised)).strip(),
    }
    if "maxcv" in result:
        facts |= {"maxcv": result.maxcv, "constr": [values.tolist() for values in result.constr]}
        multipliers = result.multipliers
        facts["multipliers"] = None if multipliers is None else [values.tolist() for values in multipliers]
    if "fun_error" in result:
        facts |= {"fun_error": result.fun_error, "fun_values": result.fun_values.tolist()}
    return {name: replace_nonfinite(value) for name, value in facts.items()}


def describe_params(params: Mapping[str, object]) -> dict[str, object]:
    """Values by name as JSON has them."""
    from sublevel.store.spaces import plain_value

    return {name: plain_value(value) for name, value in params.items()}


def _findings_as_json(findings: Iterable[Finding]) -> list[object]:
    return [{"name": one.name, "sentence": one.sentence, "numbers": one.numbers} for one in findings]


def _error_bars_as_json(found: Curvature) -> dict[str, object]:
    arrays = {"x": found.x, "hess_inv": found.hess_inv}
    if found.kind is not None:
        of_kind = {"stderr": found.stderr, "intervals": found.intervals(0.95), "at_bound": found.ends_at_bound(0.95)}
        arrays = {"x": found.x, **of_kind, "covariance": found.covariance}
    lists: dict[str, object] = {name: array.tolist() for name, array in arrays.items()}
    problems = _findings_as_json(found.problems)
    return {**lists, "kind": found.kind, "level": 0.95, "nfev": found.nfev, "problems": problems}


def replace_nonfinite(value: object) -> object:
    """The value with None in place of NaN and inf, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: replace_nonfinite(part) for key, part in cast("dict[str, object]", value).items()}
    return [replace_nonfinite(part) for part in cast("list[object]", value)] if isinstance(value, list) else value


def user_deviations(result: Result) -> Array:
    """Standard deviations (d,) of the search distribution in the user's variables; bounds and scales are linearised."""
    deviations, space = result.std.copy(), result.history.space
    if space is not None and space.free.any():
        deviations[space.free] *= space.slopes(result.mean)
    return deviations
