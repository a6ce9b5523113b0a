"""Least squares with a kernel: its system and solvers, bounds on the answer, leave-one-out, spectrum and criteria."""
