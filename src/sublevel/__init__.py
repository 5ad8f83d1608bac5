"""Black-box optimization by natural gradients: the minimum of a function and the shape of the valley around it."""

from sublevel import plots
from sublevel.adapters.scipy import scipy_method
from sublevel.curvature import Curvature, RankShape, curvature, shape_from_ranks
from sublevel.families import Bernoulli, DiagonalGaussian, FullGaussian, IsotropicGaussian
from sublevel.method import Method, Outcome
from sublevel.minimize import minimize
from sublevel.optimizer import Optimizer
from sublevel.recipes import cma, ngd, pbil, rank_mu, with_adapted_rates, xnes
from sublevel.record import History
from sublevel.restarts import BIPOP, IPOP
from sublevel.result import Result
from sublevel.warm import warm_start

__version__ = "0.1.0.dev0"

__all__ = [
    "BIPOP",
    "IPOP",
    "Bernoulli",
    "Curvature",
    "DiagonalGaussian",
    "FullGaussian",
    "History",
    "IsotropicGaussian",
    "Method",
    "Optimizer",
    "Outcome",
    "RankShape",
    "Result",
    "cma",
    "curvature",
    "minimize",
    "ngd",
    "pbil",
    "plots",
    "rank_mu",
    "scipy_method",
    "shape_from_ranks",
    "warm_start",
    "with_adapted_rates",
    "xnes",
]
