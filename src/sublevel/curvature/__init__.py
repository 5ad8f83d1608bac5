"""What the shape of the valley says about f: Hessian, error bars, stiff and sloppy directions, without derivatives."""

from sublevel.curvature.result import Curvature
from sublevel.curvature.values import curvature

__all__ = ["Curvature", "curvature"]
