r"""The LS-SVM on a reduced basis by conjugate gradients: passes over the rows instead of the square of their features.

With :math:`\lambda = 1/\gamma` and the features z of :mod:`~substrate.reduced.features`, weights u and bias b
solve

.. math::

    H \begin{bmatrix} u \\ b \end{bmatrix} = \sum_{i=1}^l \begin{bmatrix} z_i \\ 1 \end{bmatrix} t_i, \qquad
    H = \sum_{i=1}^l \begin{bmatrix} z_i \\ 1 \end{bmatrix} \begin{bmatrix} z_i \\ 1 \end{bmatrix}^T
        + \lambda \begin{bmatrix} I & \\ & 0 \end{bmatrix},

the normal equations of [Cawley2004]_ eq. (3). The direct solve forms H, for :math:`l n^2` multiplications or more; a
product with H is one pass of :math:`2 l n` over kernel values that are evaluated again. This is the method of
[Rudi2017]_, with a bias, directions of :math:`K_{SS}` below rounding left out, and a preconditioner M as below; the
steps are those of :mod:`~substrate.least_squares.conjugate_gradient`. For a gradient g,
:math:`\sqrt{g^T M^{-1} g}` estimates the distance of the outputs on all rows from those of the solution; the iteration
ends when that is a small part of its value at the mean of the targets and the certificate, from a pass of its own,
holds.

The preconditioner is the scatter of all rows, estimated from a sample R:

.. math::

    M = \frac{l}{m} \sum_{i \in R} \begin{bmatrix} z_i \\ 1 \end{bmatrix} \begin{bmatrix} z_i \\ 1 \end{bmatrix}^T
        + \lambda \begin{bmatrix} I & \\ & 0 \end{bmatrix}, \qquad |R| = m,

with the features of :mod:`~substrate.reduced.features` and a free bias. With the basis itself as the sample
the sum of products is :math:`\operatorname{diag}(s)`, which is the preconditioner of [Rudi2017]_ section 3; it is
close to the sum over all rows where n is far above the degrees of freedom. At the usual gammas this is not so, and a
sample of several times n rows is worth its :math:`m n^2`: M and the matrix of all rows then differ by factors of
about :math:`(1 \pm \sqrt{n / m})^2`, and conjugate gradients gain a digit in two to three steps whatever n and l are;
outlying rows that are not in the sample cost some more.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.rounding import relative_rounding
from substrate.certificates.rows import ACCURATE, Accuracy
from substrate.least_squares.conjugate_gradient import Columns, Descent, IterationLimits
from substrate.least_squares.saddle_certificate import worst_rows
from substrate.reduced.answer import AnswerBound, ReducedAnswer
from substrate.reduced.basis_matrix import BasisMatrix
from substrate.reduced.certificate import reduced_rows
from substrate.reduced.curvature import Curvature
from substrate.reduced.features import EigenFeatures
from substrate.reduced.moments import Origin
from substrate.reduced.rows import BasisValues, KernelRows
from substrate.reduced.solution import residual_pass
from substrate.reduced.statistic import accumulate
from substrate.streaming.array_source import ArraySource
from substrate.streaming.source import Block
from substrate.streaming.survey import TargetSummary
from substrate.streaming.tally import Tally
from substrate.threads import blas_threads

__all__ = ["PER_VECTOR", "TOLERANCE", "IteratedSolution", "SampledScatter", "sampled_scatter", "solve_by_gradients"]

#: Rows of the sample per basis vector: fewer need more passes over all rows, more need longer sums (measured).
PER_VECTOR = 8
#: Relative error of the sums up to which they precondition as well as exact ones.
_LARGEST_ERROR = 1e-2
#: The sample is part of the method, not of the model: always the same rows.
_SEED = 0


@dataclass(frozen=True, slots=True)
class SampledScatter:
    """The Cholesky factor of the centred part of M, the mean feature of the sample, the weight of all rows, and m.

    ``curvature`` is that of the sampled rows, which does not exceed that of all rows.
    """

    factor: Array
    mean: Array
    mass: float
    sampled: int
    curvature: Curvature

    def solve(self, right: Array) -> Array:
        """Return M^{-1} times columns whose last entry belongs to the bias."""
        from scipy.linalg import cho_solve

        slope, total = right[:-1], right[-1]
        weights = slope - np.outer(self.mean, total)
        if weights.size:
            weights = cho_solve((self.factor, True), weights)
        return np.vstack([weights, total / self.mass - self.mean @ weights])


def sampled_scatter(
    rows: KernelRows, features: EigenFeatures, origin: Origin, lam: float, basis: BasisMatrix
) -> SampledScatter:
    """Return sums over rows drawn at random, by kernel values where that is accurate enough, otherwise by features."""
    n = rows.n_rows
    m = min(n, PER_VECTOR * features.n_basis)
    drawn = np.sort(np.random.default_rng(_SEED).choice(n, size=m, replace=False))
    light = None if rows.weights is None else rows.weights[drawn]
    source = ArraySource(rows.source.take_rows(drawn), np.zeros((m, origin.targets.size)), weights=light)
    sample = KernelRows(rows.values, source, rows.passes)
    weight = n / m if light is None else rows.mass / sample.mass
    statistic = accumulate(sample, features, origin, lam / weight, method="accumulated")
    if statistic.error > _LARGEST_ERROR:
        statistic = accumulate(sample, features, origin, lam / weight, method="row-wise")
    mass = statistic.total.mass
    mean = statistic.total.first / mass
    scatter = statistic.total.shift_to(mean, statistic.total.targets / mass).second
    centred = weight * scatter
    centred[np.diag_indices(features.rank)] += lam
    with blas_threads(features.rank):
        factor = np.asarray(np.linalg.cholesky(centred), dtype=np.float64)
    full = mean + features.transform.T @ origin.kernel_values
    accumulated = statistic.method == "accumulated"
    curvature = Curvature(
        features=features,
        scatter=scatter,
        mean=full,
        offsets=mean,
        mass=mass,
        sizes=basis.sizes,
        terms=sample.terms,
        accumulated=accumulated,
        whole=False,
        basis=basis,
    )
    return SampledScatter(factor=factor, mean=full, mass=rows.mass, sampled=m, curvature=curvature)


#: Estimated relative error of the outputs at which the iteration ends: a tenth of the accuracy required of predictions.
TOLERANCE = 1e-7
_MOST_ITERATIONS = 200
#: Operations behind the error of a row that are counted where the target is constant, and nothing else is left.
_OPERATIONS = 100.0
#: Number of passes that recompute the true gradient and continue from it.
_MOST_RESTARTS = 4
#: Multiplications up to which the sums over all rows are computed to bound an answer that the sample does not.
_CHEAP_SUMS = 1e10
_SAMPLED = ("accuracy by", "the sums of sampled rows; solver='direct' uses those of all rows and may be sharper")


@dataclass(frozen=True, slots=True)
class IteratedSolution:
    """Beta and b, one column per output, in the units of y; certificate rows; products with H; rows of the sample."""

    coefficients: Array
    bias: Array
    rows: tuple[Row, ...]
    iterations: int
    sampled: int
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def is_converged(self) -> bool:
        """Whether every row of the certificate but that of the answer passes, including that of the iteration.

        The accuracy of the answer is required of the fit, not of the iteration.
        """
        return all(row.passes for row in self.rows if not isinstance(row, Accuracy))


@dataclass(frozen=True, slots=True)
class Products(Tally):
    """Sums over rows of K'f and 1'f, one column per output f."""

    slope: Array
    total: Array


@dataclass(frozen=True, slots=True)
class ProductsOfLeaf:
    """The outputs f = K beta + b of the rows of a leaf, times their weights, in sums."""

    values: BasisValues
    coefficients: Array
    bias: Array

    def __call__(self, blocks: Iterable[Block]) -> Products:
        """Accumulate over the micro-blocks of a leaf."""
        slope, total = np.zeros(self.coefficients.shape), np.zeros(self.bias.size)
        for block, rows, tile in self.values.walk(blocks):
            outputs = tile @ self.coefficients + self.bias
            if block.weights is not None:
                outputs *= block.weights[rows, None]
            slope += tile.T @ outputs
            total += outputs.sum(axis=0)
        return Products(slope, total)


@dataclass(frozen=True, slots=True)
class FeatureSystem:
    """H of the module, preconditioned by M; a column is finished where g' M^-1 g is at most its ``goal``."""

    rows: KernelRows
    transform: Array
    lam: float
    scatter: SampledScatter
    goal: Array

    def product(self, V: Array) -> Array:
        """Return H V, by one pass over the rows."""
        T = self.transform
        sums = self.rows.sums(ProductsOfLeaf(self.rows.values, T @ V[:-1], V[-1]), "products with all rows")
        return np.vstack([T.T @ sums.slope + self.lam * V[:-1], sums.total])

    def precondition(self, R: Array) -> Array:
        """Return M^{-1} R."""
        return self.scatter.solve(R)

    def project(self, R: Array) -> Array:
        """Return R itself, one column after the other: the bias is a coordinate of these systems."""
        return np.asfortranarray(R)

    def find_unfinished(self, R: Array, energy: Array) -> Columns:
        """Return the columns whose energy is above the goal."""
        return ~(energy <= self.goal)


def solve_by_gradients(
    rows: KernelRows,
    features: EigenFeatures,
    origin: Origin,
    lam: float,
    K_basis: Array,
    *,
    tolerance: float = TOLERANCE,
    most: int = _MOST_ITERATIONS,
    targets: TargetSummary | None = None,
    answer_share: float = ACCURATE,
) -> IteratedSolution:
    """Solve at one lambda = 1/gamma for every column of the targets, all columns in the same passes, and certify.

    ``tolerance`` is that of the iteration, ``answer_share`` the share of the spread of y that the accuracy may be.
    """
    basis = BasisMatrix(rows.values, K_basis, features)
    M, T = sampled_scatter(rows, features, origin, lam, basis), features.transform
    system = FeatureSystem(rows=rows, transform=T, lam=lam, scatter=M, goal=np.zeros(origin.targets.size))
    judge = AnswerBound(
        rows=rows,
        curvature=replace(M.curvature, terms=rows.terms),
        lam=lam,
        unit=origin.unit,
        targets=targets or rows.target_summary(),
        share=answer_share,
    )

    solution = np.vstack([np.zeros((features.rank, origin.targets.size)), origin.targets])
    iterations, restarts, digits = 0, 0, 1.0
    goal = scale = np.zeros(origin.targets.size)
    while True:
        weights, bias = solution[:-1], solution[-1]
        beta = features.coefficients(weights)
        residuals = residual_pass(rows, origin.unit, beta, bias, centre=judge.centre)
        gradient = np.vstack([T.T @ residuals.slope - lam * weights, residuals.total])
        energy = np.einsum("ij,ij->j", gradient, M.solve(gradient))
        if iterations == 0:
            # a constant target leaves only rounding, which need not be fitted
            scale = energy + (relative_rounding(_OPERATIONS) / tolerance) ** 2 * residuals.targets
            goal = tolerance**2 * scale
        answer = judge.of(residuals, beta, bias)
        checks = [
            (*checked, _iteration_row(float(energy[k]), float(scale[k]), tolerance))
            for k, checked in enumerate(
                reduced_rows(residuals, features, K_basis, beta, weights, bias, lam, answer.pull)
            )
        ]
        passes = all(row.passes for output in checks for row in output)
        settled = passes and (answer.passes or not answer.helped)
        if settled or iterations >= most or restarts > _MOST_RESTARTS:
            if passes and not answer.passes:
                answer = _known_better(judge, rows, features, origin, answer, beta, bias)
            rows_of_both = (answer.row, *worst_rows(checks))
            return IteratedSolution(
                coefficients=origin.unit * beta,
                bias=origin.unit * bias,
                rows=rows_of_both,
                iterations=iterations,
                sampled=M.sampled,
                facts=answer.facts,
            )
        change = np.zeros_like(gradient)
        descent = Descent(replace(system, goal=digits * goal), change, gradient)
        iterations, _ = descent.run(IterationLimits.plain(most), iterations)
        solution, restarts, digits = solution + change, restarts + 1, 1e-2 * digits


def _known_better(
    judge: AnswerBound,
    rows: KernelRows,
    features: EigenFeatures,
    origin: Origin,
    answer: ReducedAnswer,
    beta: Array,
    bias: Array,
) -> ReducedAnswer:
    """Return a bound by the sums of all rows, where they cost seconds, and an accurate pass: sharper than the
    sample's.
    """
    if float(rows.n_rows) * features.n_basis**2 > _CHEAP_SUMS:
        return replace(answer, facts=(*answer.facts, _SAMPLED))
    statistic = accumulate(rows, features, origin, judge.lam)
    total = statistic.total
    mean = total.first / total.mass
    scatter = total.shift_to(mean, total.targets / total.mass).second
    accumulated = statistic.method == "accumulated"
    whole = replace(
        judge.curvature, scatter=scatter, offsets=mean, mass=total.mass, whole=True, accumulated=accumulated
    )
    return replace(judge, curvature=whole).once_more(beta, bias)


def _iteration_row(energy: float, scale: float, tolerance: float) -> Row:
    name, formula = "outputs against the solution's", "sqrt(g' M^-1 g), g the gradient / gamma"
    return Row(
        name=name, value=float(np.sqrt(energy)), scale=float(np.sqrt(scale)), tolerance=tolerance, formula=formula
    )
