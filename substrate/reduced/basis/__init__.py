"""Which points to build a reduced basis of: the rules of selection, all of them on kernel values only."""

__all__ = ["RULES"]

#: The rules of selection there are.
RULES = ("feature_vectors", "stochastic", "pruned", "renyi", "kmeans++", "pivoted_cholesky", "random")
