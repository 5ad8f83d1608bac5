"""Black-box optimization by natural gradients: the minimum of a function and the shape of the valley around it."""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sublevel import plots
    from sublevel.adapters.scipy import scipy_method
    from sublevel.engine.families import Bernoulli, DiagonalGaussian, FullGaussian, IsotropicGaussian
    from sublevel.engine.method import Method, Outcome
    from sublevel.engine.recipes import cma, ngd, pbil, rank_mu, with_adapted_rates, xnes
    from sublevel.evaluation.sharded import minimize_sharded
    from sublevel.hessian.curvature import curvature
    from sublevel.hessian.result import Curvature
    from sublevel.rank_shape.search import shape_from_ranks
    from sublevel.rank_shape.shape import RankShape
    from sublevel.run.history import History
    from sublevel.run.minimize import minimize
    from sublevel.run.optimizer import Optimizer
    from sublevel.run.parameters import Choice, Integer, Real, Space
    from sublevel.run.restarts import BIPOP, IPOP, AutoRestarts
    from sublevel.run.result import Result
    from sublevel.run.warm_start import warm_start
    from sublevel.store.errors import StoreError
    from sublevel.store.load import StoredRun, load
    from sublevel.store.resume import resume

logging.getLogger("sublevel").addHandler(logging.NullHandler())

__version__ = "0.1.0"

__all__ = [
    "BIPOP",
    "IPOP",
    "AutoRestarts",
    "Bernoulli",
    "Choice",
    "Curvature",
    "DiagonalGaussian",
    "FullGaussian",
    "History",
    "Integer",
    "IsotropicGaussian",
    "Method",
    "Optimizer",
    "Outcome",
    "RankShape",
    "Real",
    "Result",
    "Space",
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

_HOMES = {
    "adapters.scipy": ("scipy_method",),
    "engine.families": ("Bernoulli", "DiagonalGaussian", "FullGaussian", "IsotropicGaussian"),
    "engine.method": ("Method", "Outcome"),
    "engine.recipes": ("cma", "ngd", "pbil", "rank_mu", "with_adapted_rates", "xnes"),
    "evaluation.sharded": ("minimize_sharded",),
    "hessian.curvature": ("curvature",),
    "hessian.result": ("Curvature",),
    "rank_shape.search": ("shape_from_ranks",),
    "rank_shape.shape": ("RankShape",),
    "run.history": ("History",),
    "run.minimize": ("minimize",),
    "run.optimizer": ("Optimizer",),
    "run.parameters": ("Choice", "Integer", "Real", "Space"),
    "run.restarts": ("BIPOP", "IPOP", "AutoRestarts"),
    "run.result": ("Result",),
    "run.warm_start": ("warm_start",),
    "store.errors": ("StoreError",),
    "store.load": ("StoredRun", "load"),
    "store.resume": ("resume",),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}
"""Where each public name is defined; a module is imported when one of its names is first used."""


def __getattr__(name: str) -> Any:
    if name == "plots":
        return importlib.import_module("sublevel.plots")
    if name not in _MODULES:
        raise AttributeError(f"module 'sublevel' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"sublevel.{_MODULES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
