"""The result of a run as text and as JSON."""

from __future__ import annotations

import math
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sublevel.engine.arrays import Array
    from sublevel.hessian.result import Curvature
    from sublevel.run.result import Result


def result_as_text(result: Result, seconds: float, figure: Path | None) -> str:
    """The result in lines. The line of `x` can be passed to --x0."""
    restarts = f", {result.restarts} restarts" if result.restarts else ""
    lines = [
        result.message,
        f"fun    {result.fun!r}",
        f"x      {','.join(map(repr, result.x.tolist()))}",
        f"std    {','.join(f'{deviation:.3g}' for deviation in user_deviations(result))}",
        f"spent  {result.nfev} evaluations in {result.nit} generations{restarts}, {seconds:.1f} s",
    ]
    if result.history.given_names is not None:
        lines.insert(2, f"names  {','.join(result.history.given_names)}")
    lines += [f"note   {finding}" for finding in result.diagnosis]
    lines += [f"plot   {figure}"] if figure else []
    return "\n".join(lines if result.curvature is None else [*lines, "", result.curvature.summary()])


def result_as_json(result: Result, seconds: float, raised: Exception | None) -> dict[str, Any]:
    """The result as values for `json.dumps`; numbers that are not finite are None."""
    facts = {
        name: result[name] for name in ("fun", "nfev", "nit", "restarts", "success", "status", "message", "reasons")
    }
    facts["x"], facts["mean"] = result.x.tolist(), result.mean.tolist()
    facts["deviations"] = user_deviations(result).tolist()
    facts["names"] = [result.history.name(i) for i in range(len(facts["x"]))]
    facts["seconds"] = round(seconds, 3)
    facts["diagnosis"] = [{"name": f.name, "sentence": f.sentence, "numbers": f.numbers} for f in result.diagnosis]
    facts["failures"] = dict(result.failures.counts)
    facts["error_bars"] = None if result.curvature is None else _error_bars_as_json(result.curvature)
    facts["error"] = None if raised is None else "".join(traceback.format_exception_only(raised)).strip()
    return replace_nonfinite(facts)


def _error_bars_as_json(found: Curvature) -> dict[str, Any]:
    arrays = {"x": found.x, "stderr": found.stderr, "intervals": found.intervals(0.95), "covariance": found.covariance}
    problems = [{"name": f.name, "sentence": f.sentence, "numbers": f.numbers} for f in found.problems]
    return {name: array.tolist() for name, array in arrays.items()} | {
        "level": 0.95,
        "nfev": found.nfev,
        "problems": problems,
    }


def replace_nonfinite(value: Any) -> Any:
    """The value with None in place of NaN and inf, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: replace_nonfinite(part) for key, part in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return [replace_nonfinite(part) for part in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]


def user_deviations(result: Result) -> Array:
    """Standard deviations of the search distribution (d,) in the user's variables, linearised where bounds or log
    scales apply.
    """
    deviations, space = result.std.copy(), result.history.space
    if space is not None:
        deviations[space.free] *= space.slopes(result.mean)
    return deviations
