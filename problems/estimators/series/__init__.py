"""Estimators of series: windows of a series as rows, and the recursion around a regressor."""
