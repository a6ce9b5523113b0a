r"""The L1 substrate on a reduced basis, with its exact path in zeta: see :mod:`problems.reduced_l1_substrate`.

.. math:: \min_{\beta, b} \; \tfrac12 \sum_{i=1}^l v_i \Big( y_i - \sum_{j \in S} \beta_j k(x_i, z_j) - b \Big)^2
          + \zeta \|\beta\|_1

One pass over the rows computes the sums for every zeta, a second one checks the solution on all rows. The weights v
are one unless ``sample_weight`` gives others.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from problems.estimators.reduced.fit import FitData, PreparedRows, prepare
from problems.estimators.reduced.machine import READERS, ReducedModel, RegressedCalibration
from problems.estimators.reduced.weighed import Weighed, weight_facts
from problems.estimators.shared.base import Fitted
from problems.estimators.shared.checked_again import Added, StoredMachine
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.regressor import Regressor
from substrate.arrays import Array, is_sparse, non_negative, positive
from substrate.certificates import Certificate, Row, warn_unless_holds
from substrate.errors import DataError
from substrate.fits.l1_on_a_basis import L1Sums, certify_sums, l1_sums
from substrate.fits.paths import VIOLATION, Path
from substrate.kernels.base import symmetric_matrix
from substrate.least_squares.saddle_certificate import worst_rows
from substrate.least_squares.saddle_system import target_unit
from substrate.penalties import OneNorm
from substrate.proof import Proof, proof_of_outputs, tolerance_in_balls
from substrate.proof.penalties import prove_l1
from substrate.reduced.moments import origin_of
from substrate.reduced.solution import UNKNOWN

__all__ = ["SparseL1SubstrateClassifier", "SparseL1SubstrateRegressor"]


def _candidates(self: Any) -> Any:
    """Return the basis vectors among which the 1-norm chooses (absent for a precomputed kernel)."""
    return self.candidates_


_BASIS = property(_candidates)


def _fit(self: Fitted, X: Any, y: Any = None, sample_weight: Any = None) -> Fitted:
    """Choose the basis, sum over all rows, follow the path down to zeta, and check the solution on all rows.

    ``sample_weight`` weighs the squared errors against zeta, as in :class:`~problems.SparseLSSVMRegressor`.
    """
    estimator: Any = self
    estimator._begin_fit()
    positive(estimator.zeta, "zeta")
    non_negative(estimator.ridge, "ridge", "as the weight of a squared norm")
    model = estimator._model
    model.choice()
    data = model.read(X, y, sample_weight)
    solved = model.solve(data)
    model.keep_path(solved)
    estimator._keep_classes(data.classes)
    model.keep_used(solved, data.outputs == 1)
    return self


class ReducedL1Model(ReducedModel):
    """The path to zeta, the solution there, and its answers."""

    rule = "kmeans++"

    def recall_machines(self, data: FitData, X: Any, y: Any) -> StoredMachine:
        return StoredReducedL1(self, data, positive(self.estimator.zeta, "zeta"), self.estimator._tolerance())

    def whole_basis(self, weighed: Weighed) -> tuple[Any, Array]:
        """Return the vectors in use, in the order of predict, then the others (by number in a matrix); all
        coefficients.
        """
        model = self.estimator
        beta, _ = self.columns()
        if model.basis_indices_ is None:
            unused = np.setdiff1d(np.arange(model.candidates_.shape[0]), model.support_)
        else:
            unused = np.flatnonzero(~np.isin(model.basis_indices_, model.support_))
        zeros = np.zeros((unused.size, beta.shape[1]))
        whole = np.concatenate([beta, zeros])
        if model.kernel_.pairwise:
            return weighed.own_numbers(np.concatenate([model.support_, model.basis_indices_[unused]])), whole
        if is_sparse(model.candidates_):
            from scipy.sparse import vstack

            return vstack([model.support_vectors_, model.candidates_[unused]]).tocsr(), whole
        return np.concatenate([model.support_vectors_, model.candidates_[unused]]), whole

    def keep_path(self, solved: "_Solved") -> None:
        """Keep the path of a regression; machines of classes have a path each, and keep none."""
        model = self.estimator
        from scipy.sparse import csr_matrix

        if model._labels:
            return
        (path,), unit = solved.paths, solved.sums.unit
        model.zetas_, model.bias_path_ = unit * path.values, unit * path.bias
        model.support_values_path_ = csr_matrix(unit * path.primal)

    def check_loaded(self) -> None:
        """Refuse a path that no fit leaves."""
        model = self.estimator
        super().check_loaded()
        if model._labels:
            return
        knots, a = model.zetas_.shape, model.support_values_path_
        if not is_sparse(a) or a.shape[:1] != knots or model.bias_path_.shape != knots:
            raise DataError("the knots, the coefficients and the biases of the path do not belong together")

    def solve(self, data: FitData) -> "_Solved":
        """Return the basis, sums over all rows, and the solutions at zeta, checked on all rows."""
        model = self.estimator
        zeta, ridge = float(model.zeta), float(model.ridge)
        prepared = prepare(self.data_kernel(data), data, self.choice(), 1.0, independent=False)
        sums = l1_sums(prepared.rows, prepared.origin, prepared.K, ridge)
        inside = zeta / sums.unit
        solutions = sums.solve(inside)
        beta = np.column_stack([solution.coefficients for solution in solutions])
        bias = np.array([solution.bias for solution in solutions])
        checks = certify_sums(prepared.rows, sums, inside, beta, bias, prepared.targets, model._tolerance())
        stated = (("ridge", f"{ridge:g}/2 w'w is part of the objective"),) if ridge > 0.0 else ()
        facts = (
            *prepared.facts,
            *weight_facts(prepared.rows),
            ("zeta", f"{zeta:g}, from {sums.unit * float(sums.zeta_max.max()):g} on only the bias is left"),
            *stated,
            ("solver", f"path of {max(len(solution.path) for solution in solutions)} knots from sums"),
        )
        if sums.unit != 1.0:
            facts += (("units", "residuals in units of max|y|"),)
        if not all(output[0].passes for output in checks):
            facts += (UNKNOWN,)
        paths = tuple(solution.path for solution in solutions)
        return _Solved(prepared=prepared, sums=sums, paths=paths, beta=beta, bias=bias, checks=checks, facts=facts)

    def keep_used(self, solved: "_Solved", one: bool) -> None:
        """Set the vectors in use, the attribute that marks the model as fitted last."""
        model = self.estimator
        basis, unit = solved.prepared.basis, solved.sums.unit
        (used,) = np.nonzero(solved.beta.any(axis=1))
        self.keep_basis(solved.prepared)
        model.zeta_max_ = unit * float(solved.sums.zeta_max.max())
        model.certificate_ = Certificate(model._title, worst_rows(solved.checks), solved.facts)
        warn_unless_holds(model.certificate_)
        if basis.points is not None:
            model.candidates_ = basis.points
            model.support_vectors_ = basis.points[used]
        model.support_ = used if basis.rows is None else model.basis_indices_[used]
        model.n_support_ = int(used.size)
        beta, bias = unit * solved.beta[used], unit * solved.bias
        model.bias_ = float(bias[0]) if one else bias
        model.support_values_ = np.ascontiguousarray(beta[:, 0] if one else beta)


@dataclass(frozen=True, slots=True)
class StoredReducedL1:
    """All outputs of a model on its whole basis, the vectors that are not in use among them."""

    model: ReducedL1Model
    data: FitData
    zeta: float
    tolerance: float

    def certify(self) -> Added:
        """Bound the answer in passes over the rows, in doubled precision where that is needed."""
        model, data = self.model, self.data
        model.training_rows(data)  # refuses rows that are not those of the fit
        basis, beta = model.whole_basis(data.weighed)
        rows = model.rows_on(data, basis)
        K = (
            rows.take_rows(basis)
            if model.estimator.kernel_.pairwise
            else symmetric_matrix(model.estimator.kernel_, basis)
        )
        summary = rows.target_summary()
        origin = origin_of(K, summary, target_unit(summary.extremes))
        sums = l1_sums(rows, origin, K, float(model.estimator.ridge))
        beta, bias = beta / sums.unit, model.columns()[1] / sums.unit
        checks = certify_sums(rows, sums, self.zeta / sums.unit, beta, bias, summary, self.tolerance)
        facts = (("kernel", repr(model.estimator.kernel_)), ("zeta", f"{model.estimator.zeta:g}"), *weight_facts(rows))
        return worst_rows(checks), facts

    def prove(self) -> Proof:
        """Bound the answer in ball arithmetic, of rows in memory."""
        model, training_rows = self.model, self.model.read_in_memory(self.data)
        basis, beta = model.whole_basis(training_rows.weighed)
        penalty, v = OneNorm(self.zeta, zero_sum=False), training_rows.weights
        proofs = []
        for k, (t, fitted) in enumerate(zip(training_rows.Y.T, training_rows.fitted.T, strict=True)):
            tolerance = tolerance_in_balls(t, v, self.tolerance)
            arguments = (t, penalty, beta[:, k], fitted, v, tolerance, float(model.estimator.ridge))
            proofs.append(prove_l1(model.estimator.kernel_, training_rows.X, basis, *arguments))
        return proof_of_outputs(proofs)


@dataclass(frozen=True, slots=True)
class _Solved:
    """All machines at zeta, and how they were obtained; numbers in units of the targets."""

    prepared: PreparedRows
    sums: L1Sums
    paths: tuple[Path, ...]
    beta: Array
    bias: Array
    checks: list[tuple[Row, ...]]
    facts: tuple[tuple[str, str], ...]


@dataclass(eq=False, repr=False)
class SparseL1SubstrateRegressor(Regressor):
    """The L1 substrate on a reduced basis: any number of rows, few of few vectors, and the whole path in zeta.

    [Pelckmans2005]_ eq. (16) with the expansion of [Cawley2004]_ eq. (2), whose coefficients need not sum to zero.

    Parameters
    ----------
    kernel, basis, passes
        As for :class:`~problems.SparseLSSVMRegressor`.
    zeta : float, default=1.0
        Weight of the 1-norm against half the squared errors of all rows; from ``zeta_max_`` on only the bias is
        left.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.

    Attributes
    ----------
    support_values_, support_, support_vectors_ : arrays
        Coefficients other than zero, and the vectors they belong to; ``support_`` are row numbers (or numbers of given
        points).
    n_support_ : int
        How many.
    zeta_max_ : float
        The smallest zeta that leaves none.
    zetas_ : array of shape (n_knots,)
        Knots of the path, ascending from zeta to ``zeta_max_``; the solution is affine between them.
    support_values_path_ : sparse matrix of shape (n_knots, n_basis)
        The coefficients of all basis vectors at the knots; :meth:`at` reads between them.
    bias_path_ : array of shape (n_knots,)
        The bias at the knots.
    basis_, candidates_ : array of shape (n_basis, n_features)
        All basis vectors (absent for a precomputed kernel).
    bias_, basis_indices_, reconstruction_error_, rank_, n_rows_, kernel_, certificate_
        As for :class:`~problems.SparseLSSVMRegressor`.

    Examples
    --------
    >>> from problems import SparseL1SubstrateRegressor
    >>> from substrate.datasets import motorcycle
    >>> from substrate.kernels import RBF
    >>> from substrate.reduced import Basis
    >>> X, y = motorcycle()
    >>> basis = Basis(30, random_state=0)
    >>> model = SparseL1SubstrateRegressor(kernel=RBF(sigma=5.0), zeta=50.0, basis=basis).fit(X, y)
    >>> model.n_support_ < 20, bool(model.certificate_.holds)
    (True, True)
    """

    _model_type = ReducedL1Model
    _page, _readers = "reduced_l1_substrate", READERS
    _title = "L1 substrate on a reduced basis, regression"
    _rows_have_targets = True
    zeta: float = 1.0
    _: KW_ONLY
    ridge: float = 0.0
    basis: Any = None

    fit = _fit
    basis_ = _BASIS

    def at(self, zeta: float) -> tuple[Array, float]:
        """Return coefficients of all basis vectors, and bias, at any zeta from that of the fit on: exact, without a
        refit.
        """
        check_is_fitted(self)
        none, stop = np.zeros((self.zetas_.size, 1)), "the zeta of the fit"
        last = float(self.zetas_[-1])  # zeta_max up to rounding: all is zero from the smaller of the two on
        slack = VIOLATION * last + max(last - self.zeta_max_, 0.0)
        path = Path(
            parameter="zeta",
            values=self.zetas_,
            primal=self.support_values_path_,
            dual=none,
            bias=self.bias_path_,
            complete=True,
            constant_below=False,
            constant_above=True,
            stop=stop,
            rounding=slack,
        )
        point = path.at(positive(zeta, "zeta"))
        return point.primal, point.bias


@dataclass(eq=False, repr=False)
class SparseL1SubstrateClassifier(Classifier):
    """The L1 substrate on a reduced basis for classes, two or more, by regression on their codes.

    Parameters
    ----------
    kernel, zeta, tol, basis
        As for :class:`SparseL1SubstrateRegressor`, with the same zeta in every machine.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        As for :class:`~problems.SparseLSSVMClassifier`.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        As for :class:`~problems.LSSVMClassifier`, from decision values of rows left out in five folds.

    Attributes
    ----------
    classes_, code_book_
        As for :class:`~problems.LSSVMClassifier`.
    support_values_, support_, support_vectors_, n_support_
        As for :class:`SparseL1SubstrateRegressor`: the vectors that some machine uses.
    zeta_max_ : float
        The smallest zeta that leaves none in any machine.
    basis_, candidates_, bias_, basis_indices_, reconstruction_error_, rank_, n_rows_, kernel_, certificate_
        As for :class:`SparseL1SubstrateRegressor`.
    """

    _model_type = ReducedL1Model
    _page, _readers = "reduced_l1_substrate", READERS
    _title = "L1 substrate on a reduced basis, classification (as regression on the labels)"
    _calibration_type = RegressedCalibration
    _rows_have_targets = _regressed = True
    zeta: float = 1.0
    _: KW_ONLY
    ridge: float = 0.0
    basis: Any = None
    coding: str = "one_vs_rest"
    calibration: Literal["sigmoid", "isotonic"] | None = "sigmoid"

    fit = _fit
    basis_ = _BASIS
