"""Estimators of series: the recursion around a regressor on windows."""
