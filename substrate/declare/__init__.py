"""The grammar of hierarchical machines: level 1 is a :class:`~substrate.Substrate`, everything above it is cvxpy.

Terms and constraints are written on expressions of the substrate; a :class:`~substrate.Machine` combines them into one
convex problem, chooses well-conditioned coordinates for it, solves it, and reads, predicts with and certifies the
solution.
"""
