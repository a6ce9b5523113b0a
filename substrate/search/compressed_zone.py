r"""A zone of widths bounded from its two ends: the evidence of many rows, from Cholesky factors alone.

With :math:`A = I + \gamma K` among the m zero-sum vectors, y the centred target and
:math:`\lambda = 1/\gamma`, the criterion is

.. math:: F = \frac1m \, y^T A^{-1} y \; (\det A)^{1/m} ,

so that directions without a kernel do not count. Let a be the logarithm of the narrowest and b that of the widest
kernel of a zone, :math:`\delta = b - a`, and w and :math:`\hat s` those of :mod:`~substrate.search.width_bounds`. At
:math:`t = b - \theta` the density is :math:`e^{-d\theta} e^{w_b (1 - e^{-2\theta})} \hat s_b`, and
:math:`e^x \ge 1 + x`: in the Loewner order

.. math:: K(b - \theta) \succeq p(\theta) K(b) + q(\theta) W(b), \qquad
          p = e^{-d\theta}, \quad q = e^{-d\theta} - e^{-(d+2)\theta} ,

which is exact to first order, for zones of any length and any :math:`\gamma`. p is above any of its tangents, of which
one is taken that is nowhere negative in the zone, and q above its chord where :math:`e^\delta \le 1 + 2/d`, and never
negative; with these in their place the matrix is linear in :math:`\theta`, so that the logarithm of the determinant is
at least a function that is concave in :math:`\theta` and concave in :math:`\gamma`. From above,
:math:`(d - 2w)^2 - 4w + 2d + 1 = (2w - d - 1)^2 \ge 0` says :math:`K'' \succeq -\mu^2 K` with
:math:`\mu^2 = 2d + 1`: for any vector u the function :math:`k(t) = u^T K(t) u` obeys :math:`k'' \ge -\mu^2 k`, and by
comparison with the sine that has its values at both ends, for :math:`\mu\delta < \pi`,

.. math:: k(b - \theta) \le \frac{\mu\delta}{\sin \mu\delta}
          \Big( \frac{\theta}{\delta} k(a) + \frac{\delta - \theta}{\delta} k(b) \Big) , \qquad
          y^T A^{-1} y \ge \frac{(y^T u)^2}{u^T u + \gamma\, u^T K u} .

The logarithm of the quotient is above its tangent in :math:`\gamma u^T K u`, which is linear in :math:`\theta` and
linear in :math:`\gamma`. So the bound of :math:`\log F` over a cell, a zone times an interval of :math:`\gamma`, is
concave in either variable, and its smallest value is at one of four corners: two Cholesky factors for every end of
an interval, and one for u, which is the solution in the middle, where K is the mean of both ends but for the square of
:math:`\delta`; any other u would do.

On r orthonormal directions V (:mod:`~substrate.search.zone_directions`) all of this holds for :math:`V^T K V`, and the
criterion on them is not above the whole one, since a block of a matrix has at most its determinant where the others are
at least one, and u may be any vector. From above, at the widest kernel,

.. math:: \log\det A \le \log\det A_V + (m - r) \log\Big( 1 + \gamma\, \frac{\operatorname{tr} K - \operatorname{tr}
          V^T K V}{m - r} \Big), \qquad y^T A^{-1} y \le y^T u + \|y - A u\|^2 ,

for :math:`u = V A_V^{-1} V^T y`: so the best value is one that is reached.

Rounding: a factor of a matrix that is off by :math:`\epsilon` in norm, its own rounding included [Rump2006]_, changes
no determinant of eigenvalues of at least one by more than :math:`(1 + \epsilon)^r`; where there is no factor the
determinant is at least one. What costs the square of the number of rows is computed where the distances are, and on a
device all of it.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import at_most, cholesky_rounding, relative_rounding
from substrate.errors import SolverError
from substrate.namespaces import (
    all_to_numpy,
    cholesky_in_place,
    diagonal_of,
    diagonal_set,
    inverse_blocks,
    is_long_and_thin,
    namespace_of,
    on_device_of,
    solve_by_blocks,
    solve_triangular,
    to_numpy,
)
from substrate.search.width_bounds import WidthFamily, spectral_moment
from substrate.search.width_criteria import CellBounds
from substrate.search.zone_directions import AllDirections, SomeDirections, centred_trace
from substrate.threads import blas_threads

__all__ = ["CompressedZone", "compress_zone"]

#: How often halving an interval of lambda, which is little work, is preferred to halving a zone for the same loss.
_PREFERRED = 8.0
#: What rounding of the ends of intervals may change of the criterion.
_ENDS = 1e-11


@dataclass(frozen=True, kw_only=True)
class CompressedZone:
    """The kernel matrices at the ends of a zone of widths, on some directions or on all.

    ``narrow`` is K(a), ``wide`` K(b) and ``moment`` W(b), compressed; ``radius`` and ``moment_radius`` bound the norms
    of what rounding changes in them. ``coordinates`` are those of the ``target`` in the span.
    """

    #: b, and b - a.
    t: float
    length: float
    dimension: int
    span: AllDirections | SomeDirections
    narrow: Any
    wide: Any
    moment: Any
    radius: float
    moment_radius: float
    target: Array
    coordinates: Any
    #: K(b) times the directions, and a bound of its trace beside them; nothing where all directions are taken.
    images: Array | None = None
    remainder: float = 0.0
    _corners: dict[float, tuple[float, float]] = field(default_factory=dict)

    @property
    def free(self) -> int:
        """The number m of zero-sum directions."""
        return int(self.target.shape[0]) - 1

    @property
    def order(self) -> int:
        """The number r of directions."""
        return int(self.wide.shape[0])

    @property
    def stretch(self) -> float:
        """The factor by which a form inside the zone may exceed the line between those at its ends; infinite from a
        length of about pi / mu on.
        """
        angle = math.sqrt(2.0 * self.dimension + 1.0) * self.length
        return angle / math.sin(angle) * (1.0 + 1e-12) if angle < 3.0 else math.inf

    def minorants(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return p and q, both linear, at the widest end and at the narrowest end."""
        d, length = self.dimension, self.length
        # the tangent in the middle, or in a long zone the one that is zero at the narrowest end: neither is negative
        touched = max(0.5 * length, length - (1.0 - 1e-9) / d)
        smaller = 1.0 - relative_rounding(32.0 + 8.0 * d * length)
        value = math.exp(-d * touched) * smaller
        chord = math.exp(-d * length) * -math.expm1(-2.0 * length) * smaller
        is_concave = length <= math.log1p(2.0 / d) * (1.0 - relative_rounding(8.0))
        return (
            (value * (1.0 + d * touched), 0.0),
            (value * (1.0 - d * (length - touched)), chord if is_concave else 0.0),
        )

    def bound_cells(self, cells: Array) -> CellBounds:
        """Bound the criterion on cells, given as logarithms of lambda, one row (start, stop) per cell.

        The values are infinite: :meth:`bound_evidence` has those that are reached.
        """
        with blas_threads(self.order), np.errstate(all="ignore"):
            gammas = np.exp(-cells[:, ::-1])
            self._bound_determinants(np.unique(gammas))
            near, far = (np.array([[self._corners[g][k] for g in pair] for pair in gammas]) for k in (0, 1))
            solutions = [
                self._solve(self._factor_of((0.5 * gamma, self.narrow), (0.5 * gamma, self.wide)))
                for gamma in gammas.mean(axis=1)
            ]
            along, squares, narrow, wide = self._forms(solutions)
            return self._bounds_at_corners(gammas, near, far, along, squares, narrow, wide)

    def _bounds_at_corners(
        self,
        gammas: Array,
        near: Array,
        far: Array,
        along: Array,
        squares: Array,
        narrow: Array,
        wide: Array,
    ) -> CellBounds:
        """Return the least bound at four corners, per cell, and what its width and its interval lose."""
        d, length, free, outputs = self.dimension, self.length, self.free, self.target.shape[1]
        stretch = self.stretch
        middle = gammas.mean(axis=1)
        centre = 0.5 * stretch * (narrow + wide)
        whole = squares + middle * centre
        corners = [
            logs[:, side] / free - (gammas[:, side] * stretch * form - middle * centre) / whole
            for logs, form in ((near, wide), (far, narrow))
            for side in (0, 1)
        ]
        logarithm = 2.0 * np.log(along) - np.log(whole) + np.min(corners, axis=0)
        slack = relative_rounding(64.0) * (1.0 + np.abs(np.array(corners)).max(axis=0) + np.abs(logarithm)) + _ENDS
        lower = np.exp(logarithm - slack) / (free * outputs)
        # what is lost: directions of large w by the tangents in the width, the quotient by its tangent in gamma
        freedom = np.maximum(near[:, 1] - near[:, 0], 0.0) / np.log(gammas[:, 1] / gammas[:, 0])
        steepness = 0.5 * (np.abs(far - near).max(axis=1) / (freedom * length) + d)
        by_width = freedom / free * length**2 * (d * d / 8.0 + 2.0 * steepness**2)
        by_lambda = np.square(0.5 * (gammas[:, 1] - gammas[:, 0]) * centre / whole)
        return CellBounds(
            lower=np.where(np.isfinite(lower), lower, 0.0),
            values=np.full(len(gammas), np.inf),
            by_width=np.nan_to_num(by_width),
            by_lambda=_PREFERRED * np.nan_to_num(by_lambda),
        )

    def _forms(self, solutions: list[Any]) -> tuple[Array, Array, Array, Array]:
        """Return y'u from below, and u'u, u'K(a)u and u'K(b)u from above, one number per cell."""
        xp, outputs = namespace_of(self.wide), self.target.shape[1]
        stacked = xp.stack(solutions, axis=1)
        u = xp.reshape(stacked, (self.order, -1))
        z = xp.reshape(xp.zeros_like(stacked) + self.coordinates[:, None, :], (self.order, -1))
        sums = [xp.sum(u * other, axis=0) for other in (z, u, self.narrow @ u, self.wide @ u)]
        along, squares, narrow, wide = (
            np.asarray(form).reshape(len(solutions), outputs).sum(axis=1) for form in all_to_numpy(*sums)
        )
        n, r = self.target.shape[0], self.order
        squares = squares * (1.0 + self.span.skew + relative_rounding(2.0 * r + 16.0))
        lengths = np.sqrt(squares) * float(np.linalg.norm(self.target))
        along = np.maximum(along - relative_rounding(n + r + 32.0) * (1.0 + math.sqrt(r)) * lengths, 0.0)
        error = (self.radius + relative_rounding(2.0 * r + 16.0) * n) * squares
        return along, squares, np.maximum(narrow + error, 0.0), np.maximum(wide + error, 0.0)

    def _bound_determinants(self, gammas: Array) -> None:
        """Compute the logarithms of the determinants at both ends, from below, at the gammas that are new."""
        fresh = [float(gamma) for gamma in gammas if float(gamma) not in self._corners]
        if not fresh:
            return
        places = [(gamma, p, q) for gamma in fresh for p, q in self.minorants()]
        factors = (self._factor_of((gamma * p, self.wide), (gamma * q, self.moment)) for gamma, p, q in places)
        logs = np.asarray(to_numpy(namespace_of(self.wide).stack([_log_determinant(factor) for factor in factors])))
        r, epsilons = self.order, np.array([self._epsilon(*place) for place in places])
        below = logs - relative_rounding(4.0 * r + 16.0) * (1.0 + np.abs(logs)) - r * np.log1p(epsilons)
        below = np.where(np.isfinite(below), np.maximum(below, 0.0), 0.0).reshape(len(fresh), 2)
        self._corners.update(
            {gamma: (float(near), float(far)) for gamma, (near, far) in zip(fresh, below, strict=True)}
        )

    def _factor_of(self, *terms: tuple[float, Any]) -> Any:
        """Return the factor of the identity plus weighted matrices; entries are not finite where there is none."""
        (weight, matrix), *others = terms
        whole = weight * matrix
        for weight, matrix in others:
            if weight > 0.0:
                whole += weight * matrix
        diagonal_set(whole, diagonal_of(whole) + 1.0)
        try:
            return cholesky_in_place(whole)
        except SolverError:
            return math.nan * self.wide

    def _solve(self, factor: Any) -> Any:
        """Return the solution for the targets."""
        z = self.coordinates
        if is_long_and_thin(factor, z):
            return solve_by_blocks(factor, inverse_blocks(factor), z)
        return solve_triangular(factor, solve_triangular(factor, z), transposed=True)

    def _epsilon(self, gamma: float, p: float, q: float) -> float:
        """Return how far a factor may be from the matrix, in norm: its entries, and the factorisation."""
        n, r, d = self.target.shape[0], self.order, self.dimension
        entries = p * self.radius + q * self.moment_radius
        trace = r + gamma * n * (p + q * (d + 1.0)) * (1.0 + relative_rounding(n))
        return at_most(gamma * entries + 2.0 * cholesky_rounding(r) * trace)

    def bound_evidence(self, lam: float) -> float:
        r"""Return a number that the criterion at the widest kernel of the zone and this lambda does not exceed.

        For any u and the residual :math:`\rho = y - A u` the quadratic form is
        :math:`y^T u + u^T \rho + \rho^T A^{-1} \rho`.
        """
        free, n, r, gamma = self.free, self.target.shape[0], self.order, 1.0 / lam
        with blas_threads(r), np.errstate(all="ignore"):
            factor = self._factor_of((gamma, self.wide))
            solution = self._solve(factor)
            within = self.coordinates - solution - gamma * (self.wide @ solution)
            xp = namespace_of(solution)
            sums = [xp.sum(solution * other) for other in (self.coordinates, within, solution)]
            log, along, turned, squares, lost = (
                float(number) for number in all_to_numpy(_log_determinant(factor), *sums, xp.sum(within * within))
            )
            beside = 0.0
            if self.images is not None and isinstance(self.span, SomeDirections):
                residual = self.target - self.span.columns @ solution - gamma * (self.images @ solution)
                lost = float(np.square(residual).sum())
                beside = (free - r) * math.log1p(gamma * self.remainder / (free - r)) if free > r else 0.0
            if not math.isfinite(log + along + squares + lost):
                return math.inf
            unit = at_most(
                gamma * self.radius + self.span.skew + relative_rounding(n + r + 64.0) * (1.0 + math.sqrt(r))
            )
            length, size = float(np.linalg.norm(self.target)), math.sqrt(squares)
            quadratic = along + abs(turned) + (math.sqrt(lost) + unit * (size + length)) ** 2
            quadratic += unit * size * (size + length)
            rounding = relative_rounding(8.0 * (free + 16.0)) * (1.0 + abs(log) / free)
            logarithm = (log + r * math.log1p(self._epsilon(gamma, 1.0, 0.0)) + beside) / free + rounding
            return float(quadratic / (free * self.target.shape[1]) * np.exp(logarithm))


def _log_determinant(factor: Any) -> Any:
    """Return the logarithm of the determinant of a factored matrix."""
    xp = namespace_of(factor)
    return 2.0 * xp.sum(xp.log(diagonal_of(factor)))


def compress_zone(
    family: WidthFamily,
    t: float,
    half: float,
    target: Array,
    span: AllDirections | SomeDirections,
) -> CompressedZone:
    """Compress the kernel matrices at the ends of a zone; ``target`` is that of ``centre_targets``."""
    half = half * (1.0 + 1e-9) + 1e-13 * (1.0 + abs(t))  # the ends of neighbours meet whatever their rounding
    n, d = int(family.distances.shape[0]), family.dimension
    with blas_threads(n):
        narrow = span.compress(family.derivatives(t - half)[0])[1]
        K, slope, _ = family.derivatives(t + half)
        images, wide = span.compress(K)
        moment = span.compress(spectral_moment(d, K, slope))[1]
        trace = 0.0 if images is None else centred_trace(K, span.root)
    share = at_most(span.rounding + 4.0 * family.rounding)
    skew = span.skew
    # entries of K and of its derivative are at most one in size, and the weights have the mean one
    radius = (share + skew) * n
    inside = float(to_numpy(namespace_of(wide).linalg.trace(wide)))
    return CompressedZone(
        t=t + half,
        length=2.0 * half,
        dimension=d,
        span=span,
        narrow=narrow,
        wide=wide,
        moment=moment,
        radius=radius,
        moment_radius=(d + 1.0) * radius,
        target=target,
        coordinates=on_device_of(wide, span.coordinates(target)),
        images=images,
        remainder=0.0 if images is None else max(trace - inside, 0.0) + (wide.shape[0] + 4.0) * radius,
    )
