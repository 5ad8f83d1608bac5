"""The paper's figures and ours: configuration → computation → pictures → report."""

from sublevel.paper.figures.reproduce import Plan, reproduce

__all__ = ["Plan", "reproduce"]
