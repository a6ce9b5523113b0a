r"""Rows that are learned one by one, in as many operations as the kernel matrix has entries, with a certificate.

With the inverse C of the bordered matrix, :math:`s = (b, \alpha)`, :math:`q = (1, k(x))`, :math:`c = C q`,
:math:`S = k(x, x) + \rho - q^T c` and :math:`t = y - q^T s`, a row (x, y) with the diagonal :math:`\rho` changes

.. math:: s \to \begin{bmatrix} s - c\,t/S \\ t/S \end{bmatrix}, \qquad
          C \to \begin{bmatrix} C + c c^T/S & -c/S \\ -c^T/S & 1/S \end{bmatrix} .

The first row costs an inverse, each one the square of the number of rows, and so does the certificate that follows it.
Where rounding has added up so far that the certificate does not hold, the machine is fitted again to all rows.
"""

import copy
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from problems.estimators.full.shaped import refuse_closed_form
from problems.estimators.shared.base import Fitted
from problems.estimators.shared.checked_again import certify_stored
from substrate import uncertainty
from substrate.arrays import Array, is_sparse, real_array
from substrate.certificates import Certificate
from substrate.errors import DataError, DeclarationError
from substrate.namespaces import is_device_array
from substrate.uncertainty.exchangeability import Exchangeability, smoothed_p_value

__all__ = ["exchangeability", "learn_one"]

#: The seed of the draws of ties.
_SEED = 20030817
#: What a row that is learned makes outdated.
_OUTDATED = (
    "calibration_scores_",
    "calibration_scaled_scores_",
    "calibration_spreads_",
    "nested_machines_",
    "nested_folds_",
    "nested_scores_",
)


class _Learner(NamedTuple):
    """The inverse of the bordered matrix and the targets, of the machine with these support values."""

    support_values: Array
    inverse: Array
    targets: Array


def learn_one(self: Fitted, x: Any, y: Any) -> Fitted:
    r"""Learn one more row, of the weight of all others, at the same kernel and gamma.

    The model is then that of a fit to all rows, at the cost of :math:`n^2` kernel values, and ``exchangeability_`` has
    one more p-value: how strange the row was beside those learned before it. For dense rows, one output, and a machine
    without a search, a shape or a linear part.

    Parameters
    ----------
    x : array of shape (n_features,)
        The row.
    y : float
        Its target.

    Examples
    --------
    >>> from problems import LSSVMRegressor
    >>> from substrate.datasets import motorcycle
    >>> from substrate.kernels import RBF
    >>> X, y = motorcycle()
    >>> model = LSSVMRegressor(RBF(6.6), 2.0).fit(X[:100], y[:100])
    >>> for row, target in zip(X[100:], y[100:]):
    ...     model = model.learn_one(row, target)
    >>> bool(model.certificate_.holds), model.support_.size
    (True, 133)
    """
    model: Any = self
    check_is_fitted(model)
    _refuse_others(model)
    given = np.atleast_1d(np.asarray(x))
    if given.shape != (model.n_features_in_,):
        raise DataError(f"x must be one row of {model.n_features_in_} features, received shape {np.shape(x)}")
    (gaps,) = np.nonzero(np.isnan(given)) if given.dtype.kind == "f" else (np.empty(0, dtype=np.intp),)
    row = real_array(model._filled(given) if gaps.size else given, "x", ndim=1)
    row = model._in_units(row[None, :])[0]
    target = float(real_array(np.atleast_1d(np.asarray(y)), "y", ndim=1)[0])
    if np.size(y) != 1:
        raise DataError(f"y must be the target of one row, received shape {np.shape(y)}")
    learner, ridge = _learner_of(model), float(model.ridge_[0])
    q = np.append(1.0, model.kernel_(row[None, :], model.support_vectors_)[0])
    s = np.append(model.bias_, model.support_values_)
    c = learner.inverse @ q
    S = max(float(model.kernel_.diag(row[None, :])[0]) - float(q @ c), 0.0) + ridge
    t = target - float(q @ s)
    border = np.append(c, -1.0)
    inverse = np.pad(learner.inverse, ((0, 1), (0, 1))) + np.outer(border, border / S)
    solution, targets = np.append(s, 0.0) - border * (t / S), np.append(learner.targets, target)
    sizes = np.abs(solution[1:]) / np.sqrt(np.maximum(np.diagonal(inverse)[1:], np.finfo(np.float64).tiny))
    known = getattr(model, "learned_p_values_", np.empty(0))
    # how a tie is drawn depends on the number of rows that were learned, and on nothing else
    tau = float(np.random.default_rng([known.size, _SEED]).random())
    p_values = np.append(known, smoothed_p_value(sizes[:-1], float(sizes[-1]), tau))
    learned, is_kept = _enlarged(model, np.vstack([model.support_vectors_, row]), solution, targets)
    for name in _OUTDATED:
        vars(model).pop(name, None)
    vars(model).update({name: value for name, value in vars(learned).items() if name.endswith("_")})
    if gaps.size and hasattr(model, "missing_cells_"):
        learned_cells = np.column_stack([np.full(gaps.size, targets.size - 1), gaps])
        model.missing_cells_ = np.concatenate([model.missing_cells_, learned_cells])
    model.learned_p_values_ = p_values
    model._learner = _Learner(model.support_values_, inverse, targets) if is_kept else None
    return self


def exchangeability(self: Any) -> Exchangeability:
    """Return the test of whether rows that were learned one by one are exchangeable with those before them."""
    if not hasattr(self, "learned_p_values_"):
        raise AttributeError("exchangeability_ is about rows that were learned one by one; call learn_one(x, y)")
    return Exchangeability(self.learned_p_values_)


def _refuse_others(model: Any) -> None:
    """Refuse machines that a row changes otherwise."""
    refuse_closed_form(model, "learn_one")
    if model._selector_type is not None:
        raise DeclarationError(
            "a row that is learned chooses nothing anew: fit LSSVMRegressor with kernel_ and gamma_ of the search first"
        )
    vectors = getattr(model, "support_vectors_", None)
    if vectors is None or is_sparse(vectors) or is_device_array(vectors):
        raise DeclarationError("rows are learned one by one from dense numpy arrays and a kernel of the inputs")
    if model._outputs() != () or not model._model.training_border().plain or model._primal() is not None:
        raise DeclarationError(
            "rows are learned one by one by a machine of one output that its support values represent, without a "
            "linear part; fit again to all rows"
        )
    if (model.ridge_ != model.ridge_[0]).any():
        raise DeclarationError("rows are learned one by one beside rows of equal weight; fit again to all rows")


def _learner_of(model: Any) -> _Learner:
    """Return the inverse and the targets of a machine: kept, or computed where the last row was fitted."""
    kept: _Learner | None = getattr(model, "_learner", None)
    if kept is not None and kept.support_values is model.support_values_:
        return kept
    n = model.support_.size
    matrix = np.zeros((n + 1, n + 1))
    matrix[0, 1:] = matrix[1:, 0] = 1.0
    matrix[1:, 1:] = model.kernel_(model.support_vectors_)
    matrix[np.arange(1, n + 1), np.arange(1, n + 1)] += model.ridge_
    targets = model._evaluate(model.support_vectors_) + model.ridge_ * model.support_values_
    return _Learner(model.support_values_, np.linalg.inv(matrix), targets)


def _enlarged(model: Any, rows: Array, solution: Array, targets: Array) -> tuple[Any, bool]:
    """Return the model with one row more, certified, and whether that is the solution given or a fit to all rows."""
    gamma, ridge, n = float(model._gammas(1)[0]), float(model.ridge_[0]), targets.size
    weights = np.full(n, 1.0) if model.unit_ridge_ == ridge else np.full(n, model.unit_ridge_ / ridge)
    learned = copy.copy(model)
    for name in _OUTDATED:
        vars(learned).pop(name, None)
    learned.support_vectors_, learned.ridge_ = rows, np.full(n, ridge)
    learned.support_ = np.append(model.support_, model.support_.max() + 1)
    learned.bias_, learned.support_values_ = float(solution[0]), solution[1:].copy()
    noise = uncertainty.noise_of_targets(targets[:, None], learned.support_values_[:, None], (gamma,))
    learned.noise_variance_ = float(noise[0])
    checked = certify_stored(model._title, learned._copy_in_scale()._model.recall_fit(rows, targets, weights))
    said = ("learned", f"{getattr(model, 'learned_p_values_', np.empty(0)).size + 1} rows one by one")
    if checked.holds:
        learned.certificate_ = Certificate(model._title, checked.rows, (*checked.record, said))
        return learned, True
    refitted = model._clone_in_scale().set_params(kernel=model.kernel_).fit(rows, targets, sample_weight=weights)
    refitted.support_ = learned.support_
    return refitted, False
