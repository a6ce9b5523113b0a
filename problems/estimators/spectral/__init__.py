"""Estimators whose conditions of optimality are eigenproblems: components, clusters, and two views."""
