"""Paths: how a machine changes with one hyper-parameter, exactly or by a bound, and the best value on all of it."""
