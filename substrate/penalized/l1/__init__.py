"""Least squares with an L1 norm on the support values: active set, bounds on the answer, and the machine on a basis."""
