"""A curvature in words."""

from __future__ import annotations

from typing import Any

import numpy as np


def summary(found: Any) -> str:
    """One page of text."""
    lines = [f"f = {found.fun:.10g}, curvature at rise {found.delta_f:.3g}, {found.nfev} evaluations"]
    error = found.stderr if found.kind else np.sqrt(np.diagonal(found.hess_inv))
    lines += [f"  {name} = {x:.6g} ± {e:.3g}" for name, x, e in zip(found.names, found.x, error, strict=True)]
    lines += [f"! {problem}" for problem in found.problems]
    return "\n".join(lines)
