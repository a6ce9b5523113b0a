r"""Coordinates in which a machine of components is a well-conditioned least-squares problem.

Every machine here is :math:`f = \sum_l f^l + b 1` with values at the training points

.. math:: f^l = C^l v, \qquad f = F v + b 1, \quad F = \sum_l C^l, \qquad
          \|P F v\|^2 + \tau \, w^T w = \|R v\|^2, \quad P = I - 11^T/N,

R upper triangular. Half the squared errors plus :math:`\tfrac{\tau}{2} w^T w`, minimised over b, are then, up to a
constant, :math:`\tfrac12 \|u - \tilde y\|^2` with :math:`u = R v` and :math:`\tilde y = R^{-T} F^T P y`. There are
two choices of v:

- *shared*: one expansion for all components, :math:`f^l = \Omega^l a` with :math:`1^T a = 0` (where there is a bias).
  The singular value decomposition :math:`[\Omega^1; \dots; \Omega^d] P = Q \Sigma V^T` gives
  :math:`a = V \Sigma^{-1} v`.
  F is injective: :math:`F v = 0` means :math:`a^T \Omega a = 0`, so every :math:`\Omega^l a` vanishes.
- *decoupled*: one expansion per component, :math:`f^l = \Omega^l a^l`. The eigenvectors
  :math:`\Omega^l = V^l S^l V^{lT}` give :math:`a^l = V^l (S^l)^{-1/2} w^l` and v the stacked :math:`w^l`, whose norm is
  the norm of the weights.

On a reduced basis ([Cawley2004]_ eq. (2)) the :math:`\Omega^l` are kernel values of all points with the points of the
basis, whose own kernel matrices have the eigenvectors and give the norm; the expansions need not sum to zero. Where
rows have weights v, norms and means of errors are weighted, :math:`P = V^{1/2} (I - 11^T V / 1^T V 1)`.

Directions below ``cutoff`` times the largest are left out: without a norm on w nothing else determines them, so the
cut-off is a parameter of the model. [Pelckmans2005]_ eq. (7)-(8), (13)-(14).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from substrate.arrays import Array, blas_threads
from substrate.errors import DeclarationError
from substrate.fits.stacked_least_squares import off_ones, reflect
from substrate.numbers import relative_rounding

__all__ = [
    "CUTOFF",
    "ComponentCoordinates",
    "center",
    "decoupled_coordinates",
    "raw_coordinates",
    "root_of",
    "shared_coordinates",
    "stacked_directions",
]

#: Relative size of the directions of component values left out, by default.
CUTOFF = 1e-6
#: How far the components may be from being determined by their sum before the decoupled machine is refused.
_DETERMINED = 1e-9
#: Relative differences below which entries count as equal.
_ROUNDING = 1e-14


@dataclass(frozen=True, slots=True)
class ComponentCoordinates:
    """One choice of coordinates v, as plain numbers.

    Parameters
    ----------
    parts
        The matrices :math:`C^l` (d x N x r): values of the components at the training points.
    coefficients
        The map from v to the expansion: N x r where it is shared, d x N x r where it is decoupled.
    metric
        R, upper triangular.
    weights
        W with w'w = ||W v||^2.
    bias, cutoff, ridge
        The model's choices.
    ranks
        Number of directions kept: one number, or one per component.
    mass
        Weights of the rows; None if all are one.
    """

    parts: Array
    coefficients: Array
    metric: Array
    weights: Array
    bias: bool
    cutoff: float
    ridge: float
    ranks: tuple[int, ...]
    mass: Array | None = None

    @property
    def is_balanced(self) -> bool:
        """Return whether 1'a = 0 is built in, or not required; otherwise it is a constraint on v = a."""
        return self.cutoff > 0.0 or self.is_decoupled

    @property
    def is_decoupled(self) -> bool:
        """Return whether every component has a separate expansion."""
        return self.coefficients.ndim == 3

    @property
    def features(self) -> Array:
        """P F: off the direction 1 where there is a bias, times the roots of the weights."""
        return center(self.parts.sum(axis=0), self.bias, self.mass)

    def targets(self, y: Array) -> Array:
        """Return the fitted values of least squares alone, in u."""
        right = self.features.T @ center(y, self.bias, self.mass)
        return np.asarray(solve_triangular(self.metric, right, trans="T"))

    def expand(self, v: Array) -> Array:
        """Return a from v: of shape (N,), or (N, d) with one column per component."""
        if self.is_decoupled:
            return np.ascontiguousarray((self.coefficients @ v).T)
        return np.asarray(self.coefficients @ v)

    def rows_at(self, rows: Sequence[Array]) -> Array:
        """Return the matrix from v to the machine's values, without bias, at points with these kernel rows per
        component.
        """
        if self.is_decoupled:
            return np.asarray(sum(component @ a for component, a in zip(rows, self.coefficients, strict=True)))
        return np.asarray(np.sum(rows, axis=0) @ self.coefficients)

    def bias_of(self, y: Array, v: Array) -> float:
        """Return b: with it the errors sum to zero."""
        if not self.bias:
            return 0.0
        values = self.parts.sum(axis=0) @ v
        return float(np.average(y, weights=self.mass) - np.average(values, weights=self.mass))

    def weighted(self, errors: Array) -> Array:
        """Return errors times the weights of their rows."""
        return errors if self.mass is None else self.mass * errors

    def ridge_gradient(self, v: Array) -> Array:
        """Return the gradient of the ridge term."""
        return self.ridge * (self.weights.T @ (self.weights @ v)) if self.ridge > 0.0 else np.zeros(v.size)

    def record(self) -> tuple[tuple[str, str], ...]:
        """Return coordinates, cut-off and ridge, for a certificate."""
        if not self.is_balanced:
            return (("coordinates", "alpha, uncut"),)
        kept = f"{sum(self.ranks)} kept at cut-off {self.cutoff:.1e}"
        kind = "one expansion per component" if self.is_decoupled else "stacked components"
        facts = [("coordinates", f"{kind}, {kept}; optimal relative to this cut-off")]
        if self.ridge > 0.0:
            facts.append(("ridge", f"{self.ridge:g}/2 w'w is part of the objective"))
        return tuple(facts)


def center(V: Array, bias: bool, mass: Array | None = None) -> Array:
    """Return V off the direction 1, where there is a bias, times the roots of the weights of the rows."""
    centred = V - np.average(V, axis=0, weights=mass) if bias else V
    return centred if mass is None else (np.sqrt(mass) * centred.T).T


def stacked_directions(components: Sequence[Array], bias: bool, cutoff: float) -> tuple[Array, int]:
    """Return A with a = A v, for which the values of all components together are orthonormal in v; and the rank kept.

    The sum to zero is built in by a reflection that removes the direction 1 before the decomposition.
    """
    stacked = np.vstack(components)
    # without the direction 1 a constant matrix is rounding error, and has no direction at all
    rounding = relative_rounding(stacked.shape[1]) * float(np.linalg.norm(stacked))
    if bias:
        stacked = reflect(np.ascontiguousarray(stacked.T))[1:].T
    if not stacked.shape[1]:
        return np.zeros((components[0].shape[1], 1)), 0
    with blas_threads(stacked.shape[1]):
        # the triangular factor has the same right singular vectors and is d times smaller
        _, s, Vt = np.linalg.svd(np.linalg.qr(stacked, mode="r"))
    keep = s > max(cutoff * float(s[0]), rounding)
    if not keep.any():  # zero kernels have one direction, of no effect
        return np.zeros((components[0].shape[1], 1)), 0
    A = np.ascontiguousarray(Vt[: s.size][keep].T / s[keep])
    return (off_ones(A) if bias else A), int(keep.sum())


def shared_coordinates(
    components: Sequence[Array],
    bias: bool = True,
    cutoff: float = CUTOFF,
    ridge: float = 0.0,
    *,
    energies: Sequence[Array] | None = None,
    mass: Array | None = None,
) -> ComponentCoordinates:
    """Return one expansion for all components; ``energies`` are the kernel matrices of a basis."""
    balanced = bias and energies is None
    A, rank = stacked_directions(components, balanced, cutoff)
    values = np.array([component @ A for component in components])
    for number, component in enumerate(components):
        # rows of equal entries times coefficients that sum to zero are rounding errors; the component vanishes
        if balanced and np.ptp(component, axis=1).max() <= _ROUNDING * np.abs(component).max():
            values[number] = 0.0
    F = values.sum(axis=0)
    W = np.zeros((0, A.shape[1]))
    if ridge > 0.0:  # a'K a = v' A'F v
        W = root_of(A.T @ (F if energies is None else np.sum(energies, axis=0) @ A))
    return ComponentCoordinates(
        parts=values,
        coefficients=A,
        metric=_metric(center(F, bias, mass), W, ridge),
        weights=W,
        bias=bias,
        cutoff=cutoff,
        ridge=ridge,
        ranks=(rank,),
        mass=mass,
    )


def raw_coordinates(components: Sequence[Array], bias: bool = True, cutoff: float = 0.0) -> ComponentCoordinates:
    """Return the support values themselves, without a cut-off: for teaching, and to show where solvers fail."""
    values = np.array(components)
    n = values.shape[1]
    return ComponentCoordinates(
        parts=values,
        coefficients=np.eye(n),
        metric=np.zeros((n, n)),
        weights=np.zeros((0, n)),
        bias=bias,
        cutoff=0.0,
        ridge=0.0,
        ranks=(n,),
    )


def decoupled_coordinates(
    components: Sequence[Array],
    bias: bool = True,
    cutoff: float = CUTOFF,
    ridge: float = 0.0,
    *,
    energies: Sequence[Array] | None = None,
    mass: Array | None = None,
) -> ComponentCoordinates:
    """Return one expansion per component; refused where its fitted values would not depend on the inputs.

    ``energies`` are the kernel matrices of a basis.
    """
    n, columns = components[0].shape
    factors, expansions = [], []
    for component, energy in zip(components, components if energies is None else energies, strict=True):
        with blas_threads(columns):
            values, vectors = np.linalg.eigh(energy)
        keep = values > cutoff * max(float(values[-1]), 0.0)
        root = np.sqrt(values[keep])
        expansions.append(vectors[:, keep] / root)
        factors.append(vectors[:, keep] * root if energies is None else component @ expansions[-1])
    ranks = tuple(factor.shape[1] for factor in factors)
    size = max(sum(ranks), 1)
    parts, coefficients = np.zeros((len(ranks), n, size)), np.zeros((len(ranks), columns, size))
    start = 0
    for number, rank in enumerate(ranks):
        place = slice(start, start + rank)
        parts[number, :, place], coefficients[number, :, place] = factors[number], expansions[number]
        start += rank
    whole, W = parts.sum(axis=0), np.eye(size)
    centred = center(whole, bias, mass)
    if ridge == 0.0 and sum(ranks):
        _refuse_undetermined(centred, np.linalg.norm(whole, axis=0), ranks, n - bias)
    return ComponentCoordinates(
        parts=parts,
        coefficients=coefficients,
        metric=_metric(centred, W, ridge),
        weights=W,
        bias=bias,
        cutoff=cutoff,
        ridge=ridge,
        ranks=ranks,
        mass=mass,
    )


def _refuse_undetermined(F: Array, sizes: Array, ranks: tuple[int, ...], rows: int) -> None:
    """Refuse components whose sum does not determine them: they can take any values at all at the training points.

    ``sizes`` are the lengths before the direction 1 was removed: the rest of a constant is rounding error.
    """
    lengths = np.linalg.norm(F, axis=0)
    smallest = 0.0
    if sum(ranks) <= rows and (lengths > _DETERMINED * sizes).all():
        smallest = float(np.linalg.svd(F / lengths, compute_uv=False)[-1])
    if smallest <= _DETERMINED:
        raise DeclarationError(
            f"decoupled components of total rank {sum(ranks)} on {rows} free rows are not "
            "determined by the data: a strictly positive definite component could take any values, whatever its "
            "input; add a ridge (ridge=0.1), or use components of finite rank (Linear, Polynomial, a "
            "larger cutoff)"
        )


def root_of(gram: Array) -> Array:
    """Return W with W'W = gram, which is symmetric and positive semi-definite up to rounding."""
    values, vectors = np.linalg.eigh((gram + gram.T) / 2.0)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)


def _metric(F: Array, W: Array, ridge: float) -> Array:
    """Return the triangular factor of F'F + ridge W'W, without squaring F."""
    rows = [F, np.sqrt(ridge) * W]
    if not F.any():  # nothing is fitted; any regular metric suffices
        rows.append(np.eye(F.shape[1]))
    return np.asarray(np.linalg.qr(np.vstack(rows), mode="r"))
