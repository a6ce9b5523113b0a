"""Fusion of training and validation, with a certified global optimum."""
