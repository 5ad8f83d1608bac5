"""A quadratic model of the order of values, which saves evaluations of an expensive objective."""
