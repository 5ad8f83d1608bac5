"""The figures of the paper: configuration, computation, drawing, report."""

from sublevel.paper.figures.reproduce import Plan, reproduce

__all__ = ["Plan", "reproduce"]
