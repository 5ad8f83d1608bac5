"""What the shape of the valley says about f: Hessian, error bars, stiff and sloppy directions, without derivatives."""

from sublevel.curvature.profile import Profile
from sublevel.curvature.profile_intervals import ProfileIntervals
from sublevel.curvature.ranks import shape_from_ranks
from sublevel.curvature.result import Curvature
from sublevel.curvature.shape import RankShape
from sublevel.curvature.values import curvature

__all__ = ["Curvature", "Profile", "ProfileIntervals", "RankShape", "curvature", "shape_from_ranks"]
