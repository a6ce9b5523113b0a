"""Paths: how a machine changes with one hyper-parameter, and the best value on the whole path."""
