r"""The bounds of machines of maximal variation in ball arithmetic, on all rows and on a reduced basis.

On all rows, from a point and multipliers in the directions :math:`A^l` that the cut-off keeps, as in
:mod:`~substrate.penalized.variation.accuracy`,

.. math:: C^l = \Omega^l A^l, \qquad w^T w = v^T \sum_l A^{lT} C^l v .

The directions are plain numbers, as double precision computed them; the kernel values :math:`\Omega^l` are exact. The
bound is the formula of the certificate, :func:`~substrate.penalized.variation.accuracy.bound_variation`, in balls.

On a reduced basis, from the stored numbers and any dual point, with features :math:`z^l(x) = T_l^T k^l_S(x)` and
weights v of the stored expansions, as in :mod:`~substrate.penalized.variation.accuracy_on_a_basis`,

.. math:: \tfrac12 \|f - f^\star\|^2 \le \tfrac12 g^T H^{-1} g
          + \sum_l \Big( \rho \max_i |f^l(x_i)| - \sum_{i \in W} \xi^l_i f^l(x_i) \Big) .
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.balls import Balls, BallTable, root_of
from substrate.certificates.tolerance import Tolerance
from substrate.ingredients.component_weights import Weights
from substrate.kernels import Componentwise, Kernel
from substrate.penalized.variation.accuracy import EqualRows, VariationWitness, bound_variation, sum_of
from substrate.penalized.variation.component_coordinates import ComponentCoordinates
from substrate.proof import Proof, ball, balls, flint, precision
from substrate.proof.least_squares import proof_of
from substrate.proof.reduced import BasisRows

__all__ = ["prove_reduced_variation", "prove_variation"]

_BITS = 160


def prove_variation(
    coordinates: ComponentCoordinates,
    y: Array,
    rho: Weights,
    witness: VariationWitness,
    fitted: Array,
    kernel: Componentwise,
    X: Any,
    a: Array,
    b: float,
    tolerance: Tolerance,
    *,
    bits: int = _BITS,
) -> Proof:
    """Return the proof for one machine; ``a`` and ``b`` are stored, with one column per component where decoupled."""
    if not (np.isfinite(fitted).all() and np.isfinite(witness.v).all() and np.isfinite(a).all()):
        return Proof.of(math.inf, tolerance, bits, "the model holds numbers that are not finite")
    with precision(bits):
        matrices = [BallTable.of(BasisRows(component, X, X).matrix()) for component in kernel.components(X.shape[1])]
        values = _BallComponents.of(matrices, coordinates)
        stored = sum_of([matrix @ column for matrix, column in zip(matrices, _columns(a, len(matrices)), strict=True)])
        try:
            bound = bound_variation(values, Balls, y, rho, witness, fitted, stored + b).value
        except ZeroDivisionError:  # singular to this number of bits
            bound = ball(float("inf"))
        return proof_of(bound, tolerance, bits)


def _columns(a: Array, count: int) -> list[Array]:
    """Return the coefficients of every component."""
    return [a] * count if a.ndim == 1 else [np.ascontiguousarray(column) for column in a.T]


@dataclass(frozen=True, slots=True)
class _BallComponents:
    """C^l = Omega^l A^l for exact kernel values and directions that are plain numbers, and H."""

    parts: tuple[BallTable, ...]
    ridge: BallTable | None
    hessian: Any
    bias: bool

    @classmethod
    def of(cls, matrices: Sequence[BallTable], coordinates: ComponentCoordinates) -> "_BallComponents":
        """Multiply the kernel values with the directions, and form H = F'PF + tau sum_l A^l' C^l."""
        (d, n, r), shared = coordinates.parts.shape, coordinates.coefficients
        directions = [
            BallTable.of([balls(row) for row in (shared[k] if coordinates.is_decoupled else shared)]) for k in range(d)
        ]
        components = [matrix.matrix * A.matrix for matrix, A in zip(matrices, directions, strict=True)]
        F = sum(components[1:], components[0])
        H, ridge = F.transpose() * F, None
        if coordinates.bias:
            means = flint().arb_mat(1, r, [sum(F[i, j] for i in range(n)) / n for j in range(r)])
            H = H - means.transpose() * means * ball(float(n))
        if coordinates.ridge > 0.0:
            terms = [A.matrix.transpose() * C for A, C in zip(directions, components, strict=True)]
            ridge = sum(terms[1:], terms[0]) * ball(coordinates.ridge)
            H = H + ridge
        if not any(entry != 0 for entry in H.entries()):  # nothing is fitted
            H = flint().arb_mat(r, r, [ball(float(i == j)) for i in range(r) for j in range(r)])
        products = tuple(BallTable(component) for component in components)
        return cls(products, None if ridge is None else BallTable(ridge), H, coordinates.bias)

    @classmethod
    def of_features(
        cls, tables: Sequence[BallTable], transforms: Sequence[Array], ridge: float, row_weights: Array
    ) -> "_BallComponents":
        """Take features K^l T^l, each component with columns of its own, whose weights have the norm of w."""
        n, size = row_weights.size, max(sum(T.shape[1] for T in transforms), 1)  # one of no effect, if there is none
        light, zero, first, components = balls(row_weights), ball(0.0), 0, []
        for table, T in zip(tables, transforms, strict=True):
            r = T.shape[1]
            directions_of_component = table.matrix * flint().arb_mat(*T.shape, [t for row in T for t in balls(row)])
            whole = flint().arb_mat(n, size, [zero] * (n * size))
            for i in range(n):
                for j in range(r):
                    whole[i, first + j] = directions_of_component[i, j]
            components.append(whole)
            first += r
        F = sum(components[1:], components[0])
        mass = sum(light, zero)
        means = [sum((light[i] * F[i, j] for i in range(n)), zero) / mass for j in range(size)]
        centred = flint().arb_mat(n, size, [F[i, j] - means[j] for i in range(n) for j in range(size)])
        pulled = flint().arb_mat(n, size, [light[i] * centred[i, j] for i in range(n) for j in range(size)])
        places = range(size)
        penalty = flint().arb_mat(size, size, [ball(ridge if i == j else 0.0) for i in places for j in places])
        H = pulled.transpose() * centred + penalty
        return cls(tuple(BallTable(component) for component in components), BallTable(penalty), H, True)

    def values(self, v: Array) -> list[Balls]:
        """Return C^l v of every component."""
        return [component @ v for component in self.parts]

    def adjoint(self, pulls: Sequence[Balls]) -> Balls:
        """Return the sum of C^l' z^l over the components."""
        return sum_of([component.T @ z for component, z in zip(self.parts, pulls, strict=True)])

    def ridge_pull(self, v: Array) -> Any:
        """Return tau W'W v."""
        return 0.0 if self.ridge is None else self.ridge @ v

    def inverse_norm(self, q: Balls) -> Balls:
        """Return sqrt(q' H^-1 q)."""
        return _form(self.hessian, q)

    def bound_step(self, ties: EqualRows, change: Balls, free: Any) -> Balls:
        """Return the norm of the step that ties rows."""
        rows = [
            [self.parts[component].matrix[row, j] * int(sign) for j in free.tolist()]
            for component, row, sign in ties.signed_places
        ]
        differences = [[x - z for x, z in zip(rows[k], rows[ties.reference[k]], strict=True)] for k in ties.others]
        D = flint().arb_mat(differences)
        try:
            return _form(D * self._of(free).solve(D.transpose()), change)
        except ZeroDivisionError:  # these rows are not told apart
            return Balls(ball(float("inf")))

    def _of(self, free: Any) -> Any:
        """Return some rows and columns of H."""
        places = free.tolist()
        return flint().arb_mat([[self.hessian[i, j] for j in places] for i in places])

    def reach(self, number: int, free: Any) -> Balls:
        """Return the norms of the rows of one component."""
        whole = self.parts[number].matrix
        C = flint().arb_mat([[whole[i, j] for j in free.tolist()] for i in range(whole.nrows())])
        solved = self._of(free).solve(C.transpose())
        squares = (sum((C[i, j] * solved[j, i] for j in range(C.ncols())), ball(0.0)) for i in range(C.nrows()))
        return Balls([root_of(square) for square in squares])


def _form(matrix: Any, g: Balls) -> Balls:
    """Return sqrt(g' M^-1 g)."""
    column = flint().arb_mat(len(g.values), 1, g.values.tolist())
    return Balls(root_of((column.transpose() * matrix.solve(column))[0, 0]))


_REDUCED_BITS = 200


def prove_reduced_variation(
    components: Sequence[Kernel],
    X: Any,
    points: Any,
    transforms: Sequence[Array],
    y: Array,
    coefficients: Array,
    fitted: Array,
    rho: float,
    ridge: float,
    numbers: Sequence[int],
    xi: Array,
    row_weights: Array,
    tolerance: Tolerance,
    *,
    bits: int = _REDUCED_BITS,
) -> Proof:
    """Return the proof for stored coefficients, one column per component; ``xi`` has one row per component, of any
    numbers.
    """
    v = np.concatenate([_weights(T, beta) for T, beta in zip(transforms, coefficients.T, strict=True)])
    v = v if v.size else np.zeros(1)
    multipliers = np.zeros((len(components), y.size))
    multipliers[:, np.asarray(numbers, dtype=int)] = xi if len(numbers) else 0.0
    with precision(bits):
        tables = [BallTable.of(BasisRows(component, X, points).matrix(X)) for component in components]
        values = _BallComponents.of_features(tables, transforms, ridge, row_weights)
        witness = VariationWitness(v, multipliers)
        try:
            bound = bound_variation(values, Balls, y, rho, witness, fitted, row_weights=row_weights).value
        except ZeroDivisionError:  # singular to this number of bits
            bound = ball(float("inf"))
        return proof_of(bound, tolerance, bits)


def _weights(T: Array, beta: Array) -> Array:
    """Return weights of the features whose expansion is near the stored one; any would do."""
    squares = np.square(T).sum(axis=0)
    return np.asarray(np.where(squares > 0.0, (T.T @ beta) / np.where(squares > 0.0, squares, 1.0), 0.0))
