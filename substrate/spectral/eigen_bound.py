r"""What is proved of computed eigenpairs: their values, that they are the leading ones, and the subspace they span.

Of a symmetric A with computed pairs U, :math:`\Theta` let :math:`\delta = \|U^T U - I\|` and, with the orthonormal
:math:`\tilde U = U (U^T U)^{-1/2}`,

.. math::

    \rho = \|A \tilde U - \tilde U \Theta\| \le
    \frac{\|A U - U \Theta\| + 2 \delta \|\Theta\| + \|\Delta A\| (1 + \delta)}{\sqrt{1 - \delta}} ,

in which the rounding of AU and the error :math:`\Delta A` of the entries of A are counted. Then

- k eigenvalues of A pair with the values of :math:`\Theta`, each within :math:`\rho` (Kahan, [Parlett1998]_ theorem
  11.5.1);
- they are the k leading ones where at most k exceed a number :math:`t` below :math:`\theta_k - \rho`
  (:mod:`~substrate.spectral.inertia`, or, without a factorisation, :math:`t = \operatorname{tr} A - \sum_i (\theta_i -
  \rho)` where A is positive semi-definite and few eigenvalues hold most of the trace, or :math:`t^2 = \|A\|_F^2 -
  \sum_i (\theta_i - \rho)^2`, which needs less of them, and less still where the space of an iteration takes its part,
  :mod:`~substrate.spectral.remainder`);
- the subspace is then that of the k leading ones up to an angle of at most :math:`\rho / (\theta_k - t)` (its sine;
  [Davis1970]_), and :math:`\theta_k - \rho - t` is proved to be a gap.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from substrate.arrays import Array
from substrate.certificates import NO_BOUND, PROVED, Certificate, Row
from substrate.certificates.rounding import at_most, relative_rounding
from substrate.namespaces import namespace_of, to_numpy
from substrate.spectral.centred_operator import MeasuredOperator
from substrate.spectral.eigenpairs import Eigenpairs
from substrate.spectral.inertia import Count, count_above
from substrate.spectral.remainder import Remainder

__all__ = ["EigenBound", "bound_eigenpairs", "eigen_certificate", "prove_leading"]

#: Defect of orthonormality beyond which nothing is said.
_MOST_DEFECT = 0.1
#: Where between two eigenvalues the threshold of a count lies, from the lower one.
_PLACE = 0.15


@dataclass(frozen=True, slots=True)
class EigenBound:
    """What is proved of the leading eigenpairs.

    Parameters
    ----------
    values
        The computed eigenvalues, largest first: the wanted ones, and further ones where a count includes them.
    wanted
        How many of them are wanted.
    radius
        How far an exact eigenvalue is from each of them at most.
    rounding
        The part of the radius that rounding of kernel values and products causes.
    defect
        A bound on the norm of U'U - I.
    outside
        A bound on the norm of the part of AU in directions that the computed pairs leave out.
    following
        A number above which there are no eigenvalues beside the counted ones; infinite where that is not proved.
    counted
        How many eigenvalues are proved to be above ``following``; zero where that is not proved.
    method
        How they were counted.
    """

    values: Array
    wanted: int
    radius: float
    rounding: float
    defect: float
    following: float = math.inf
    counted: int = 0
    method: str = ""
    outside: float = 0.0

    @property
    def leading(self) -> bool:
        """Whether the wanted values are proved to be the leading ones."""
        return self.counted >= self.wanted

    @property
    def gap(self) -> float:
        """A lower bound on the distance of the last wanted eigenvalue from the next; zero where none is proved."""
        if not self.leading:
            return 0.0
        following = self.following
        if self.counted > self.wanted:
            following = float(self.values[self.wanted]) + self.radius
        gap = float(self.values[self.wanted - 1]) - self.radius - following
        return max(gap - relative_rounding(4.0) * abs(float(self.values[0])), 0.0)

    @property
    def angle(self) -> float:
        """A bound on the sine of the largest angle between the computed subspace and the exact one."""
        gap = self.gap
        return min(at_most((self.radius + self.outside) / gap), math.inf) if gap > 0.0 else math.inf


def bound_eigenpairs(operator: MeasuredOperator, pairs: Eigenpairs) -> EigenBound:
    """Bound the residual of computed eigenpairs; nothing is counted yet."""
    U, values = pairs.vectors, np.asarray(pairs.values)
    kept = values.size
    xp = namespace_of(U)
    defect_matrix = np.asarray(to_numpy(U.T @ U)) - np.eye(kept)
    defect = at_most(float(np.linalg.norm(defect_matrix)) + relative_rounding(operator.n + 2.0) * kept)
    largest = float(np.abs(values).max(initial=0.0))
    residual = pairs.products - U * xp.asarray(values, dtype=U.dtype, device=U.device)[None, :]
    length = float(xp.linalg.vector_norm(residual))
    rounding = pairs.product_error + relative_rounding(4.0) * largest * math.sqrt(kept) * (1.0 + defect)
    if not defect <= _MOST_DEFECT or not math.isfinite(length):
        return EigenBound(values=values, wanted=pairs.wanted, radius=math.inf, rounding=math.inf, defect=defect)
    matrix = operator.matrix_error * (1.0 + defect)
    slack = math.sqrt(1.0 - defect)
    radius = at_most((length + rounding + 2.0 * defect * largest * math.sqrt(1.0 + defect) + matrix) / slack)
    return EigenBound(
        values=values,
        wanted=pairs.wanted,
        radius=radius,
        rounding=at_most((rounding + matrix) / slack),
        defect=defect,
    )


def prove_leading(
    bound: EigenBound,
    operator: MeasuredOperator,
    following: float,
    factorize: bool = True,
    remainder: Remainder | None = None,
) -> EigenBound:
    """Count the eigenvalues above the computed ones' end, so that they are proved to be the leading ones.

    ``following`` is an estimate of the next eigenvalue. Without ``factorize`` only the trace and the sum of squares are
    used, with the ``remainder`` of the space of an iteration where there was one.
    """
    if not math.isfinite(bound.radius):
        return bound
    without_factor = _by_trace(bound, operator)
    if not without_factor.leading:
        without_factor = _by_squares(bound, operator) if remainder is None else _by_remainder(bound, remainder)
    if without_factor.leading or not factorize:
        return without_factor
    values = np.append(bound.values, following if math.isfinite(following) else min(float(bound.values[-1]), 0.0))
    gaps = values[:-1] - values[1:]
    # the widest gap at or behind the last wanted value: behind a multiple eigenvalue where the last one is one
    last = bound.wanted - 1 + int(np.argmax(gaps[bound.wanted - 1 :]))
    if gaps[bound.wanted - 1] > 20.0 * bound.radius:
        last = bound.wanted - 1
    threshold = float(values[last + 1] + _PLACE * gaps[last])
    # the matrix that is factored is formed with the rounding of a product
    formed = operator.product_error + operator.matrix_error
    matrix = operator.dense()
    count = count_above(matrix, threshold, formed)
    if _separates(bound, count, last + 1):
        return replace(bound, following=count.above, counted=last + 1, method="inertia")
    return _before_ties(bound, matrix, formed, count.radius)


def _separates(bound: EigenBound, count: Count, expected: int) -> bool:
    """Return whether all eigenvalues above the threshold of a count are paired with the first ``expected`` values."""
    lowest = float(bound.values[expected - 1]) - bound.radius if expected else math.inf
    return count.count == expected and math.isfinite(count.above) and count.above < lowest


def _before_ties(bound: EigenBound, matrix: Array, formed: float, resolution: float) -> EigenBound:
    """Count above the last wanted value instead, where others are too near to count behind it.

    If only those paired with larger values are above a number t, the wanted ones are the leading ones up to t less the
    last of them; whose vectors the last ones are remains open.
    """
    last = float(bound.values[bound.wanted - 1])
    threshold = last + 4.0 * (bound.radius + resolution)
    count = count_above(matrix, threshold, formed)
    larger = int(np.sum(bound.values[: bound.wanted] > count.above + bound.radius))
    if not _separates(bound, count, larger):
        return bound
    radius = max(bound.radius, at_most(count.above - last))
    return replace(bound, radius=radius, following=count.above, counted=bound.wanted, method="inertia")


def _by_trace(bound: EigenBound, operator: MeasuredOperator) -> EigenBound:
    """Bound what is outside the computed pairs by the trace: A is positive semi-definite where K is."""
    if not operator.definite:
        return bound
    values = bound.values[: bound.wanted]
    # all eigenvalues of the exact A are positive, so those beside the paired ones sum to what the trace leaves; the
    # sum over the paired ones is at least that of the values less a radius each
    above = operator.trace - float(values.sum()) + values.size * bound.radius
    above = at_most(above + relative_rounding(values.size + 4.0) * abs(operator.trace)) if above > 0.0 else 0.0
    if not above < float(values[-1]) - bound.radius:
        return bound
    return replace(bound, following=max(above, 0.0), counted=bound.wanted, method="trace")


def _by_squares(bound: EigenBound, operator: MeasuredOperator) -> EigenBound:
    """Bound what is outside the computed pairs by the sum of the squares of all eigenvalues.

    Further pairs take their part of it too, so that those wanted need not hold most of it.
    """
    lowest = np.maximum(np.abs(bound.values) - bound.radius, 0.0)
    kept = lowest.size
    squares = float(np.square(lowest).sum()) * (1.0 - relative_rounding(kept + 4.0))
    total = operator.square_sum
    above = math.sqrt(max(total - squares, 0.0) + relative_rounding(8.0) * total)
    return _first_apart(bound, np.maximum(np.append(bound.values[1:] + bound.radius, above), above))


def _by_remainder(bound: EigenBound, remainder: Remainder) -> EigenBound:
    """Bound what is outside the computed pairs by what the space that they are from leaves of A."""
    return _first_apart(bound, np.array([remainder.above(count + 1) for count in range(bound.values.size)]))


def _first_apart(bound: EigenBound, following: Array) -> EigenBound:
    """Count up to the first place at or behind the last wanted value at which the paired eigenvalues are above others.

    No eigenvalue but those paired with the first j exceeds ``following[j - 1]``.
    """
    following = following + relative_rounding(4.0) * np.abs(following)
    (apart,) = np.nonzero(bound.values[bound.wanted - 1 :] - bound.radius > following[bound.wanted - 1 :])
    if not apart.size:
        return bound
    last = bound.wanted - 1 + int(apart[0])
    return replace(bound, following=float(following[last]), counted=last + 1, method="the sum of squares")


def eigen_certificate(
    title: str, bound: EigenBound, tolerance: float, record: tuple[tuple[str, str], ...] = (), noun: str = "eigenvalues"
) -> Certificate:
    """Return the report: how near the values are, whether they are the leading ones, and the subspace.

    The row of the count is there where it was asked for and reached; where it was not, a fact says so.
    """
    largest = float(np.abs(bound.values).max(initial=0.0))
    wanted = bound.values[: bound.wanted]
    rows = [
        Row(
            name=noun,
            value=bound.radius,
            scale=largest,
            tolerance=tolerance,
            formula="(||AU - U Theta|| + 2 delta ||Theta|| + rounding) / (1 - delta)^(1/2)",
        ),
        Row(name="orthonormality", value=bound.defect, scale=1.0, tolerance=tolerance, formula="||U'U - I||"),
    ]
    text = f"{wanted.size} {noun} within {bound.radius:.1e} (the largest is {largest:.3g})"
    facts = list(record)
    if bound.leading:
        text += f", proved to be the leading ones by {bound.method}"
        text += (
            f", their subspace within an angle of {bound.angle:.1e}"
            if bound.angle <= 1.0
            else "; the next one is as near, so the subspace of the last is not unique"
        )
        facts.append(("counted", f"{bound.counted} eigenvalues above {bound.following:.6g}, by {bound.method}"))
    else:
        text += "; that no larger one was missed is not proved"
        facts.append(("to count them", "certify(X) proves by inertia how many are larger than the next one"))
    facts.append((PROVED if math.isfinite(bound.radius) else NO_BOUND, text))
    return Certificate(title, tuple(rows), tuple(facts))
