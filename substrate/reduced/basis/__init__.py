"""The rules that select the points of a reduced basis, all of them by kernel values only."""

__all__ = ["RULES"]

#: The rules of selection.
RULES = ("feature_vectors", "stochastic", "pruned", "renyi", "kmeans++", "pivoted_cholesky", "random")
