"""Curvature: Hessian, error bars, stiff and sloppy directions around a minimum, without derivatives."""
