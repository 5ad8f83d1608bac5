"""Calls of the objective: in this process, in others, on a cluster."""
