r"""A machine on fewer vectors, with a proof of how far it is from the one that was fitted.

.. math:: f = \sum_{i=1}^N \alpha_i k(x_i, \cdot), \qquad f_n = \sum_{j \in S} \beta_j k(x_j, \cdot), \qquad
          |f(x) - f_n(x)| \le \|f - f_n\|_H \sqrt{k(x, x)}

for every x, by the reproducing property and the inequality of Cauchy and Schwarz. With :math:`c = \alpha - P \beta`
the norm is :math:`\|f - f_n\|_H^2 = c^T K c`, computed with products in doubled precision, and with the rounding of the
kernel values, :math:`p\, s_i s_j` each with :math:`s_i = \sqrt{k(x_i, x_i)}`, it is at most

.. math:: c^T \hat K c + p \Big( \sum_i |c_i| s_i \Big)^2 + \text{rounding} .

Vectors are chosen one after another: the one whose addition lowers the norm most, :math:`r(x_i)^2 / P(x_i)^2` with the
remainder :math:`r = f - f_n` and the power function P, in the Newton basis of the vectors chosen ([Muller2009]_; the
f/P-greedy rule of [Wirtz2013]_), and :math:`f_n` is the projection of f on them. Then the fewest of this order whose
bound is below ``tol`` are found by halving. The order is greedy: another set of fewer vectors may exist, and none is
claimed not to.
"""

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from problems.estimators.shared.calibration_scores import probabilities
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.coded import winners
from problems.export.described import refuse_model
from substrate.arrays import Array, check_memory, is_sparse, positive
from substrate.certificates import PROVED, Certificate, Row
from substrate.certificates.doubled_precision import exact_product
from substrate.certificates.rounding import at_most, relative_rounding, sum_rounding
from substrate.errors import DeclarationError
from substrate.formulas import DOUBLE, Output, Program, bound_rounding, inputs, kernel_formula
from substrate.kernels import Kernel
from substrate.kernels.base import strips
from substrate.least_squares.kernel_products import expansion_values

__all__ = ["CompressedMachine", "compress"]

#: What is left of k(x, x) below which a vector adds nothing but rounding, as a share of it.
_DEPENDENT = 1e-13
#: The order goes on until the norm is so much of what is asked for, since its bound is larger than the norm.
_BEYOND = 0.5
#: Rows of the kernel matrix that are computed at a time.
_ROWS = 256


@dataclass(frozen=True, eq=False)
class CompressedMachine:
    """A fitted model on fewer vectors, which predicts and is exported as the model was.

    Attributes
    ----------
    source : estimator
        The model that was compressed; its calibration is that of this machine.
    certificate_ : Certificate
        How far the outputs are from those of the source: its row ``distance`` holds everywhere, or in the box that the
        record states.
    """

    source: Any
    machine: Any
    certificate_: Certificate

    @property
    def n_vectors(self) -> int:
        """The number of vectors that are left."""
        return int(self.machine.support_.size)

    @property
    def support_vectors_(self) -> Array:
        """The vectors that are left, in the units of the machine."""
        vectors: Array = self.machine.support_vectors_
        return vectors

    @property
    def distance(self) -> float:
        """The bound on the distance from the outputs of the source."""
        return self.certificate_["distance"].value

    def predict(self, X: Any) -> Any:
        """Predict the rows of X, as the source does."""
        return self.machine.predict(X)

    def decision_function(self, X: Any) -> Array:
        """Return the decision values of a classifier."""
        self._check_classifier()
        scores: Array = self.machine.decision_function(X)
        return scores

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of a classifier, by the calibration of the source."""
        self._check_classifier()
        calibration = self.source._calibration
        scores = self.machine.decision_function(X)
        return probabilities(calibration.maps(calibration.rule(), None), scores, winners(scores))

    def _check_classifier(self) -> None:
        if not isinstance(self.source, Classifier):
            raise AttributeError(f"{type(self.source).__name__} is a regressor, which has no classes")


def compress(model: Any, tol: float) -> CompressedMachine:
    """Return a machine on few of the vectors of a fitted model, within ``tol`` of it at every point.

    The vectors are the fewest of a greedy order for which the distance is proved, and not the fewest there are. With a
    ``tol`` that cannot be proved with fewer all vectors stay, at the distance zero.

    Parameters
    ----------
    model
        A fitted regressor or classifier with one expansion in one kernel: the LS-SVM and its relatives.
    tol : float
        The largest distance of an output from that of the model, in the units of the prediction, or of the decision
        value for classes.
    """
    limit = positive(tol, "tol")
    refuse_model(model)
    _refuse_several(model)
    kernel: Kernel = model.kernel_
    points = model.support_vectors_
    points = points.toarray() if is_sparse(points) else np.asarray(points)
    alpha = np.reshape(model._coefficients(), (points.shape[0], -1))
    reach, where = _largest_length(kernel, points)
    (used,) = np.nonzero((alpha != 0.0).any(axis=1))
    points, alpha = points[used], alpha[used]
    order, betas = _choose(kernel, points, alpha, _BEYOND * limit / reach)
    chosen, beta, distance = np.arange(used.size), alpha, 0.0
    low, high = 0, len(order)  # the smallest number whose bound is at most tol lies above low, if there is one
    bounds: dict[int, float] = {}

    def bound_of(count: int) -> float:
        if count not in bounds:
            bounds[count] = reach * _bound_norm(kernel, points, alpha, order[:count], betas(count))
        return bounds[count]

    if bound_of(high) <= limit:
        if bound_of(0) <= limit:
            high = 0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if bound_of(middle) <= limit else (middle, high)
        chosen, beta, distance = order[:high], betas(high), bound_of(high)
    machine = _shorten(model, used[chosen], beta)
    row = Row(
        name="distance",
        value=distance,
        scale=limit,
        tolerance=1.0,
        formula="||f - f_n||_H sqrt(max k(x, x)) + rounding",
    )
    record = (
        (PROVED, f"outputs within {distance:.1e} of those of the model, {where}"),
        ("vectors", f"{len(chosen)} of {model.support_.size}, the first of a greedy order"),
        ("kernel", repr(kernel)),
    )
    return CompressedMachine(model, machine, Certificate(f"{type(model).__name__}, compressed", (row,), record))


def _refuse_several(model: Any) -> None:
    """Refuse machines that are not one expansion in one kernel."""
    name = type(model).__name__
    is_single = model._coefficients().shape[1:] == model._outputs()  # several have an axis of their own
    if not is_single or hasattr(model, "shape_points_"):
        raise DeclarationError(
            f"this {name} has several expansions, or further terms, and one expansion in one kernel is compressed; fit "
            "LSSVMRegressor or LSSVMClassifier (substrate fit --model lssvm), or export it as it is"
        )
    if model._model.primal() is not None:
        raise DeclarationError(
            f"this {name} is stored by the weights of the features of {model.kernel_!r}, which need no vectors; export "
            "it as it is"
        )
    if not model.kernel_.trusted:
        raise DeclarationError(
            f"{model.kernel_!r} is not known to be positive semi-definite, so that its norm bounds nothing; fit with a "
            "kernel of substrate.kernels"
        )


def _largest_length(kernel: Kernel, points: Array) -> tuple[float, str]:
    """Return a bound on the root of k(x, x), everywhere if there is one and in the box of the vectors otherwise."""
    d = points.shape[1]
    x = inputs(d)
    program = Program.of(d, [Output("diagonal", (kernel_formula(kernel, x, x),), ())])
    boxes = {
        "everywhere": np.tile([-np.inf, np.inf], (d, 1)),
        "in the box of the vectors": np.column_stack([points.min(axis=0), points.max(axis=0)]),
    }
    for where, box in boxes.items():
        bound = bound_rounding(program, box, DOUBLE)
        if math.isfinite(bound.highs[0]):
            return at_most(math.sqrt(max(bound.highs[0], 0.0))), where
    raise DeclarationError(f"{kernel!r} has no largest value in the box of the vectors; scale the columns of X")


def _choose(kernel: Kernel, points: Array, alpha: Array, stop: float) -> tuple[Any, Any]:
    """Return vectors in a greedy order, until the norm of what is left is about ``stop``, and their coefficients.

    In the Newton basis, every function of which vanishes at the vectors before, values are lower triangular at the
    vectors: the coefficients of the kernel follow by one triangular solve for any number of the first ones.
    """
    from scipy.linalg import solve_triangular

    n = points.shape[0]
    remainder = np.array(expansion_values(kernel, points, alpha, 0.0, points))
    norms = np.einsum("ik,ik->k", alpha, remainder)  # squared, of every output
    diagonal = np.asarray(kernel.diag(points))
    left = diagonal.copy()
    basis = np.empty((n, 0))
    order: list[int] = []
    components: list[Array] = []
    while len(order) < n and (norms > stop**2).any():
        gains = np.where(left > _DEPENDENT * diagonal, (remainder**2).max(axis=1) / np.maximum(left, 1e-300), -1.0)
        gains[order] = -1.0
        best = int(np.argmax(gains))
        if gains[best] <= 0.0:
            break
        if basis.shape[1] == len(order):  # room for as many again
            more = max(len(order), 32)
            check_memory(16.0 * n * more, "the basis of the vectors", "Raise tol, or take a model of fewer rows.")
            basis = np.concatenate([basis, np.empty((n, more))], axis=1)
        count = len(order)
        column = np.empty((n, 1))
        kernel.fill(points, points[[best]], column)
        vector = (column[:, 0] - basis[:, :count] @ basis[best, :count]) / math.sqrt(left[best])
        component = remainder[best] / math.sqrt(left[best])
        basis[:, count] = vector
        remainder -= vector[:, None] * component
        norms = norms - component**2
        left = left - vector**2
        order.append(best)
        components.append(component)
    places = np.array(order, dtype=np.intp)
    values = np.array(components).reshape(len(order), alpha.shape[1])

    def betas(count: int) -> Array:
        lower = basis[places[:count], :count]
        return np.asarray(solve_triangular(lower, values[:count], lower=True, trans=1)) if count else values[:0]

    return places, betas


def _bound_norm(kernel: Kernel, points: Array, alpha: Array, chosen: Any, beta: Array) -> float:
    """Return an upper bound on the norm of f - f_n, the largest of all outputs."""
    c = alpha.copy()
    c[chosen] -= beta
    # the difference itself was rounded
    rounding = relative_rounding(1.0) * (np.abs(alpha[chosen]) + np.abs(beta))
    lengths = np.sqrt(np.asarray(kernel.diag(points)))
    p = kernel.careful_rounding(points)
    (used,) = np.nonzero((c != 0.0).any(axis=1))
    if not used.size:
        return float((lengths[chosen] @ rounding).max(initial=0.0))
    squares, sizes = np.zeros(c.shape[1]), lengths @ np.abs(c)
    blocks = list(strips(used.size, _ROWS))
    for strip in blocks:
        rows = used[strip]
        block = np.empty((rows.size, used.size))
        kernel.fill_carefully(points[rows], points[used], block)
        for column in range(c.shape[1]):
            (high, low), radius = exact_product(block, c[used, column])
            terms = c[rows, column] * high
            more = np.abs(c[rows, column]) * (np.abs(low) + radius) + sum_rounding(2.0) * np.abs(terms)
            squares[column] += math.fsum(terms) + float(more.sum())
    squares = np.maximum(squares, 0.0) + at_most(p + sum_rounding(4.0 + len(blocks))) * sizes**2
    norms = np.sqrt(squares) + lengths[chosen] @ rounding
    return float(at_most(norms.max()))


def _shorten(model: Any, rows: Any, beta: Array) -> Any:
    """Return a copy of the model that predicts from these of its vectors with these coefficients; for predictions
    alone, since no optimality holds of it.
    """
    machine = copy.copy(model)
    points = model.support_vectors_
    machine.support_ = np.asarray(model.support_)[rows]
    machine.support_vectors_ = points[rows].toarray() if is_sparse(points) else np.array(points[rows])
    coefficients = np.ascontiguousarray(beta if model._outputs() else beta[:, 0])
    if hasattr(model, "support_codes_"):
        machine.support_codes_ = np.ones_like(coefficients)
    machine.support_values_ = coefficients
    return machine
