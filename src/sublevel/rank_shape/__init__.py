"""The shape of a function around its minimum, from comparisons alone."""
