"""The paper's figures and ours: configuration → computation → pictures → report."""

from sublevel.experiments.reproduce import Plan, reproduce

__all__ = ["Plan", "reproduce"]
