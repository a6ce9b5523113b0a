"""Eigenproblems of kernel matrices: leading eigenpairs, and what is proved of them.

Kernel PCA, kernel spectral clustering and the machines of two views are stationary points of one LS-SVM each, and the
conditions of optimality of all of them are eigenproblems. They share the centred matrix, the iteration, and the bounds.
"""
