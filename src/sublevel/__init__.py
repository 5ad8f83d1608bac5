"""Black-box optimization by natural gradients: the minimum of a function and the shape of the valley around it."""

import logging

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
from sublevel.resume import resume
from sublevel.sharded import minimize_sharded
from sublevel.store.errors import StoreError
from sublevel.stored import StoredRun, load
from sublevel.warm import warm_start

logging.getLogger("sublevel").addHandler(logging.NullHandler())

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
    "StoreError",
    "StoredRun",
    "cma",
    "curvature",
    "load",
    "minimize",
    "minimize_sharded",
    "ngd",
    "pbil",
    "plots",
    "rank_mu",
    "resume",
    "scipy_method",
    "shape_from_ranks",
    "warm_start",
    "with_adapted_rates",
    "xnes",
]
