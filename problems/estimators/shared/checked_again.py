r"""A dense kernel least-squares model checked, or proved, on its training data, from what ``predict`` uses.

.. math:: \|f - f^\star\|_v \le \|y - f - \alpha / (\gamma v)\|_v

The bounds are those of :mod:`substrate.least_squares.saddle_certificate`, of
:mod:`substrate.least_squares.primal_weights` where primal weights represent the answer, and of
:mod:`substrate.proof.least_squares` in ball arithmetic. The training data are given again, and no result of the fit is
trusted: kernel values, fitted values and residuals are recomputed.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from problems.estimators.shared.checks import check_home
from problems.estimators.shared.machine_rows import each_machine
from substrate.arrays import Array
from substrate.certificates import Certificate, Row
from substrate.certificates.rows import ACCURATE, Accuracy, root_mean_square
from substrate.device_gram import gram_kind
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.least_squares.answer import Question, certified
from substrate.least_squares.saddle_certificate import saddle_rows, worst_rows
from substrate.least_squares.saddle_system import ridge_of
from substrate.namespaces import own_copy, take_rows, to_numpy

if TYPE_CHECKING:
    from substrate.proof import Proof

__all__ = [
    "Asked",
    "CheckedAgain",
    "certify_machines",
    "check_given",
    "given_again",
    "nonexpansive",
    "prove_machines",
    "refuse_strange_classes",
    "refuse_weights",
    "rows_of_fit",
]


@dataclass(frozen=True, slots=True)
class Asked:
    """The data of a fit, given again.

    Parameters
    ----------
    X
        The rows of the expansion; for a precomputed kernel the square matrix of those rows.
    Y
        Targets, one column per output.
    weights, gammas
        Weights of the rows, and one gamma for each output.
    title
        The title of the certificate.
    labels
        Whether the targets are codes, where zero excludes a row from a machine.
    tolerance
        The accuracy required, as a share of the spread of y.
    equations
        Tolerance of the equations of the support values; LAPACK's for a direct method unless given.
    missing
        The rounding errors of the targets, one column per output, where they are a difference.
    observed
        The targets of the user, one column per output, where Y is made of them: the spread is theirs.
    """

    X: Any
    Y: Array
    weights: Array
    gammas: tuple[float, ...]
    title: str
    labels: bool = False
    tolerance: float = ACCURATE
    equations: float | None = None
    missing: Array | None = None
    observed: Array | None = None


def check_given(model: Any, y: Any, sample_weight: Any, weighted: bool) -> None:
    """Refuse to check without targets, or with weights that the fit cannot have had."""
    name = type(model).__name__
    if y is None:
        raise DataError(f"{name}.certify needs y, the targets of the fit: a model does not keep them")
    if sample_weight is not None and not weighted:
        raise DataError(f"{name}.fit takes no sample_weight, so there is none to check with; leave sample_weight out")


class CheckedAgain:
    """The two methods of a dense least-squares estimator; ``_given_again`` returns the data of the fit."""

    #: Whether :meth:`fit` takes ``sample_weight``.
    _takes_weights: ClassVar[bool] = True

    def certify(self, X: Any, y: Any = None, sample_weight: Any = None) -> Certificate:
        """Check the present coefficients of this model on the training data, given again.

        Everything is recomputed from ``X``, ``y`` and what :meth:`predict` uses; a coefficient changed since the
        fit makes the certificate fail. ``sample_weight`` is for estimators whose ``fit`` takes it.
        """
        check_given(self, y, sample_weight, self._takes_weights)
        return certify_machines(self, self._given_again(X, y, sample_weight))

    def prove(self, X: Any, y: Any, sample_weight: Any = None) -> "Proof":
        """Prove in ball arithmetic a bound on the distance of the fitted values from those of the exact optimum.

        ``X``, ``y`` and ``sample_weight`` are those of the fit. Only the stored numbers of the fit are used.
        Needs python-flint, ``pip install "lssvm-substrate[proof]"``.
        """
        check_given(self, y, sample_weight, self._takes_weights)
        return prove_machines(self, self._given_again(X, y, sample_weight))

    @abstractmethod
    def _given_again(self, X: Any, y: Any, sample_weight: Any) -> Asked:
        """The data of the fit, checked as the fit checks them."""


def certify_machines(model: Any, asked: Asked) -> Certificate:
    """Rows for the present coefficients, and the accuracy of every output."""
    X, alpha = asked.X, _coefficients(model, asked)
    check_home(model, alpha, X)
    gram = _gram(model, X)
    targets, v, bias = to_numpy(asked.Y), to_numpy(asked.weights), np.atleast_1d(to_numpy(model._bias()))
    border, slopes = model._border(X, v), model._linear_slopes()
    fitted, primal = np.reshape(to_numpy(model._fitted_values(X)), targets.shape), model._primal()
    rows: list[tuple[Row, ...]] = []
    facts: dict[str, str] = {}
    for one, gamma in zip(each_machine(targets, asked.labels), asked.gammas, strict=True):
        members, column = one.rows, one.column
        a = own_copy(take_rows(alpha[:, column], members))
        part = gram if one.whole else gram.restrict(members)
        known = (to_numpy(part.product(a)), to_numpy(part.diagonal), one.y)
        held_now = (to_numpy(a), float(bias[column]))
        own = border if one.whole else border.take(members, v[members])
        linear = None if slopes is None else slopes[:, [column]]
        ridge, c = ridge_of(gamma, v[members]), None if linear is None else linear[:, 0]
        checks = saddle_rows(*known, ridge, *held_now, tolerance=asked.equations, border=own, slopes=c)
        points = one.points(to_numpy(X), model.kernel_.pairwise)
        observed = None if asked.observed is None else asked.observed[members, column][:, None]
        data = (model.kernel_, points, one.y[:, None], (gamma,), v[members])
        question = Question(*data, part.negative, asked.tolerance, observed, own)
        held = None if primal is None else primal.output(column)
        shown = fitted[members, column][:, None]
        answer = certified(question, to_numpy(a)[:, None], bias[[column]], shown, held, linear)
        bounded = nonexpansive(answer.rows, asked, column)
        # the equations of the support values do not apply to an answer in primal weights
        rows.append(bounded if primal is not None else (*bounded, *checks))
        facts |= dict(answer.facts)
    return Certificate(f"{asked.title}, checked again", worst_rows(rows), (*gram.record(), *facts.items()))


def nonexpansive(rows: tuple[Row, ...], asked: Asked, column: int) -> tuple[Row, ...]:
    """The rows with the errors of the targets: fitted values differ by no more than their targets."""
    if asked.missing is None:
        return rows
    short = 1.01 * root_mean_square(asked.missing[:, column], to_numpy(asked.weights))
    return tuple(replace(row, value=row.value + short) if isinstance(row, Accuracy) else row for row in rows)


def prove_machines(model: Any, asked: Asked) -> "Proof":
    """The proof of every output."""
    from substrate.proof import proof_of_outputs
    from substrate.proof.least_squares import prove_expansion, prove_primal  # for few, who have ball arithmetic

    alpha, v = to_numpy(_coefficients(model, asked)), to_numpy(asked.weights)
    targets, bias = to_numpy(asked.Y), np.atleast_1d(to_numpy(model._bias()))
    border, slopes = model._border(asked.X, v), model._linear_slopes()
    fitted, primal = np.reshape(to_numpy(model._fitted_values(asked.X)), targets.shape), model._primal()
    found = []
    for one, gamma in zip(each_machine(targets, asked.labels), asked.gammas, strict=True):
        members, column = one.rows, one.column
        points, weights = one.points(to_numpy(asked.X), model.kernel_.pairwise), v[members]
        y, predicted = one.y, fitted[members, column]
        observed = None if asked.observed is None else asked.observed[members, column]
        if primal is not None:
            held = primal.output(column)
            made = prove_primal(
                held, points, y, gamma, weights, predicted, tolerance=asked.tolerance, observed=observed
            )
        else:
            made = prove_expansion(
                model.kernel_,
                points,
                y,
                gamma,
                weights,
                alpha[members, column],
                float(bias[column]),
                predicted,
                tolerance=asked.tolerance,
                border=border if one.whole else border.take(members, weights),
                slopes=None if slopes is None else slopes[:, column],
                observed=observed,
            )
        if asked.missing is not None:
            short = 1.01 * root_mean_square(asked.missing[:, column], v)
            made = replace(made, accuracy=math.nextafter(made.accuracy + short, math.inf))
        found.append(made)
    return proof_of_outputs(found)


def _gram(model: Any, X: Any) -> Gram:
    gram = gram_kind(X).of(model.kernel_, X)
    if not model.kernel_.trusted:
        gram.check_definite()
    return gram


def _coefficients(model: Any, asked: Asked) -> Array:
    alpha: Array = model._coefficients()
    alpha = alpha[:, None] if alpha.ndim == 1 else alpha
    if tuple(alpha.shape) != tuple(asked.Y.shape):
        found, wanted = tuple(alpha.shape), tuple(asked.Y.shape)
        raise DataError(f"the model has support values of shape {found}, these rows need {wanted}")
    return alpha


def given_again(model: Any, X: Any, y: Any, *, labels: bool) -> tuple[Any, Array]:
    """Rows and targets as the fit checked them, one column per machine; for labels, their codes."""
    check_is_fitted(model)
    if y is None:
        raise DataError(f"{type(model).__name__} keeps no targets; pass the y of the fit beside its X")
    X, y, _ = clone(model)._checked(X, y, None, numeric=not labels)
    if X.shape[1] != model.n_features_in_:
        raise DataError(f"X has {X.shape[1]} features, this model was fitted to {model.n_features_in_}")
    return X, model._codes_again(y) if labels else y[:, None]


def refuse_strange_classes(model: Any, labels: Any) -> None:
    """Raise for labels that the model does not know, or for classes in an order that no fit leaves."""
    held, present = np.asarray(model.classes_), np.unique(labels)
    if not np.array_equal(np.unique(held), held):
        raise DataError(f"classes_ must be sorted, each class once, as a fit leaves them; the model holds {held}")
    if not np.isin(present, held).all():
        raise DataError(f"the model knows classes {held}, these data have {present}")


def refuse_weights(model: Any, sample_weight: Any) -> None:
    """Raise for weights of a model that is fitted without."""
    if sample_weight is not None:
        raise DataError(f"{type(model).__name__} is fitted without sample_weight; pass None")


def rows_of_fit(model: Any, n: int) -> Any:
    """The rows that the machine was fitted to: all of them, unless some were held out to choose a parameter."""
    if model._chooses is None:
        return np.arange(n)
    rows = getattr(model, "training_rows_", model.support_)
    if rows.size and rows.max() >= n:
        raise DataError(f"the model was fitted to more rows than these {n}; pass the X and y of the fit")
    return rows
