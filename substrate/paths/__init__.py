"""Paths: the solution as a function of one hyper-parameter, exactly or within a bound, and its best value."""
