"""Black-box optimization by natural gradients: the minimum of a function and the shape of the valley around it."""

from sublevel.families import Bernoulli, DiagonalGaussian, FullGaussian, IsotropicGaussian
from sublevel.method import Method, Outcome
from sublevel.minimize import minimize
from sublevel.optimizer import Optimizer
from sublevel.recipes import ngd, pbil, rank_mu

__version__ = "0.1.0.dev0"

__all__ = [
    "Bernoulli",
    "DiagonalGaussian",
    "FullGaussian",
    "IsotropicGaussian",
    "Method",
    "Optimizer",
    "Outcome",
    "minimize",
    "ngd",
    "pbil",
    "rank_mu",
]
