"""The paper's theory as code: exact dynamics, predicted curves, and checks that return reports.

A is given by a root `hessian_root` L, A = LᵀL (`root_of_hessian` finds one). What to look for where:
quadratic.py the objective, exact.py the algorithm, curves.py and restricted.py what is predicted, measure.py what is
measured, checks.py, sampled.py and special.py the statements, verify.py all of them at once.
"""

from sublevel.paper.theory.curves import (
    Curves,
    condition_ratio_limit,
    exact_curves,
    first_times,
    parameter_rate_limit,
    predicted_condition,
    predicted_curves,
    predicted_times,
    upper_bound,
)
from sublevel.paper.theory.exact import ProjectedRates, PseudoRates, deterministic_ngd, exact_natural_gradient
from sublevel.paper.theory.measure import (
    condition_number,
    expected_objective,
    log_covariance_norm,
    log_expected_objective,
    log_mean_distance,
)
from sublevel.paper.theory.quadratic import (
    natural_gradient_constant,
    random_hessian_root,
    root_of_hessian,
    sublevel_cost,
)
from sublevel.paper.theory.report import Report
from sublevel.paper.theory.restricted import expected_objective_rate, mode_rates, rate_interval, variance_rate
from sublevel.paper.theory.verify import run_checks

__all__ = [
    "Curves",
    "ProjectedRates",
    "PseudoRates",
    "Report",
    "condition_number",
    "condition_ratio_limit",
    "deterministic_ngd",
    "exact_curves",
    "exact_natural_gradient",
    "expected_objective",
    "expected_objective_rate",
    "first_times",
    "log_covariance_norm",
    "log_expected_objective",
    "log_mean_distance",
    "mode_rates",
    "natural_gradient_constant",
    "parameter_rate_limit",
    "predicted_condition",
    "predicted_curves",
    "predicted_times",
    "random_hessian_root",
    "rate_interval",
    "root_of_hessian",
    "run_checks",
    "sublevel_cost",
    "upper_bound",
    "variance_rate",
]
