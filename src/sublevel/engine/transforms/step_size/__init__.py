"""Step-size rules: changes of the overall scale besides those by the covariance part.

A rule is a transform that sets `Tangent.log_scale`. It comes before the learning rates, where the mean part of the
tangent is Σ wᵢzᵢ.
"""

from __future__ import annotations

from collections.abc import Mapping

from sublevel.engine.transforms.protocol import Transform
from sublevel.engine.transforms.step_size.csa import CSA
from sublevel.engine.transforms.step_size.psr import PSR
from sublevel.engine.transforms.step_size.tpa import TPA

STEP_SIZES: Mapping[str, tuple[Transform, ...]] = {
    "csa": (CSA(),),
    "psr": (PSR(),),
    "tpa": (TPA(),),
}
"""Registry: the transforms of each rule by name."""

__all__ = ["CSA", "PSR", "STEP_SIZES", "TPA"]
