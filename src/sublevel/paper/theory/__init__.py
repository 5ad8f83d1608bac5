"""The paper's theory as code: exact dynamics, predicted curves, and checks that return reports.

A is given by a root `hessian_root` L, A = LᵀL (`root_of_hessian` finds one). quadratic.py has the objective, exact.py
the algorithm, curves.py and restricted.py the predictions, measure.py the quantities that are compared, checks.py,
sampled.py and special.py the statements, and verify.py all of them. predictions.py predicts the stochastic
algorithm; its functions are also here.
"""

from sublevel.paper.theory.predictions import (
    best_setting,
    convergence_rate,
    final_condition,
    is_stable,
    matched_rate,
    stability,
)

__all__ = ["best_setting", "convergence_rate", "final_condition", "is_stable", "matched_rate", "stability"]
