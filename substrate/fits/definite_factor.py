"""Cholesky factors of systems that may be singular to rounding, with as little around LAPACK as can be."""

import numpy as np
from scipy.linalg.lapack import dpotrf

from substrate.arrays import Array

__all__ = ["factor_definite"]

#: Ridge of a system that is singular to rounding, relative to its diagonal.
_SINGULAR = 1e-14


def factor_definite(system: Array) -> Array:
    """Return the lower factor of a symmetric matrix in Fortran's order, with a small ridge where it needs one."""
    diagonal = np.arange(system.shape[0])
    kept = system[diagonal, diagonal].copy()
    for ridge in (0.0, _SINGULAR, 1e3 * _SINGULAR, 1e6 * _SINGULAR):
        system[diagonal, diagonal] = kept * (1.0 + ridge)
        factor, info = dpotrf(system, lower=1, clean=0)
        if info == 0:
            return np.asarray(factor)
    raise np.linalg.LinAlgError("the matrix of active rows is singular")
