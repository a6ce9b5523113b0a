"""Least squares with maximal variations: coordinates, active rows, bounds on the answer, and the machine on a basis."""
