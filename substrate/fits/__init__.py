"""Fits: an operator, a loss and a penalty in, coefficients out; closed forms, active sets and exact paths."""
