"""Black-box optimization by natural gradients: the minimum of a function and the shape of the valley around it."""

from sublevel.families import Bernoulli, DiagonalGaussian, FullGaussian, IsotropicGaussian
from sublevel.method import Method, Outcome
from sublevel.minimize import minimize
from sublevel.optimizer import Optimizer
from sublevel.recipes import cma, ngd, pbil, rank_mu, with_adapted_rates, xnes
from sublevel.restarts import BIPOP, IPOP

__version__ = "0.1.0.dev0"

__all__ = [
    "BIPOP",
    "IPOP",
    "Bernoulli",
    "DiagonalGaussian",
    "FullGaussian",
    "IsotropicGaussian",
    "Method",
    "Optimizer",
    "Outcome",
    "cma",
    "minimize",
    "ngd",
    "pbil",
    "rank_mu",
    "with_adapted_rates",
    "xnes",
]
