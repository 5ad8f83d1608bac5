"""The paper's theory as code: exact dynamics, predicted curves, and checks that return reports."""

from sublevel.theory.exact import deterministic_ngd, exact_natural_gradient

__all__ = ["deterministic_ngd", "exact_natural_gradient"]
