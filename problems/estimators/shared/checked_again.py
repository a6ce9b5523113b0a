r"""The check and the proof of the present state of a model on its training data, for all estimators.

``certify`` and ``prove`` go through the machines that a model stores (:class:`StoredMachine`), one for each output or
pair of classes, or one for all of them where a pass over the rows checks all at once. What a model adds is in a
:class:`StoredFit`: facts, and further rows.

The training data are given again, and no result of the fit is trusted: kernel values, fitted values and residuals are
recomputed. For the dense kernel least-squares machines (:class:`StoredSaddle`) the bound comes from
:mod:`substrate.least_squares.answer`, and in a proof the same bound is computed in ball arithmetic:

.. math:: \|f - f^\star\|_v \le \|y - f - \alpha / (\gamma v)\|_v .
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from problems.estimators.shared.checks import check_home
from substrate.arrays import Array, own_copy, to_numpy
from substrate.certificates import Certificate, Row, Tolerance, worst_rows
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.answer import AnswerProblem, bound_answer
from substrate.least_squares.border import ONES, Border
from substrate.least_squares.saddle_system import ridge_of, saddle_row

if TYPE_CHECKING:
    from substrate.proof import Proof

__all__ = [
    "Added",
    "Facts",
    "StoredFit",
    "StoredMachine",
    "StoredSaddle",
    "certify_stored",
    "definite_gram",
    "recall_saddle",
]

Facts = tuple[tuple[str, str], ...]
#: Rows and facts of a certificate.
Added = tuple[tuple[Row, ...], Facts]


class StoredMachine(Protocol):
    """A machine as a model stores it, on its training rows."""

    def certify(self) -> Added:
        """Return the rows of its certificate, first the row of the answer, and facts."""

    def prove(self) -> "Proof":
        """Return the proof of its answer."""


class StoredFit(NamedTuple):
    """The machines of a model, and what it adds to a certificate: rows that follow theirs, facts that come before."""

    machines: Iterable[StoredMachine]
    add: Callable[[], Added] = lambda: ((), ())


def certify_stored(title: str, stored: StoredFit) -> Certificate:
    """Return the certificate of the machines that a model stores: the worst of their rows, and the facts of all."""
    rows: list[tuple[Row, ...]] = []
    facts: dict[str, str] = {}
    for machine in stored.machines:
        machine_rows, more = machine.certify()
        rows.append(machine_rows)
        facts |= dict(more)
    added, first = stored.add()
    return Certificate(f"{title}, checked again", (*worst_rows(rows), *added), (*first, *facts.items()))


def recall_saddle(
    model: Any,
    X: Any,
    Y: Array,
    weights: Array,
    gammas: tuple[float, ...],
    *,
    border: Border = ONES,
    slopes: Array | None = None,
    bias: Any = None,
    observed: Array | None = None,
    equations: float | None = None,
) -> StoredFit:
    """Return the machines of a dense least-squares estimator on the data of its fit, which were checked.

    Parameters
    ----------
    model
        The estimator, fitted.
    X
        The rows of the expansion; for a precomputed kernel the square matrix of those rows.
    Y
        Targets, one column per output; of codes, where zero excludes a row from a machine.
    weights, gammas
        Weights of the rows, and one gamma for each output.
    border, slopes, bias
        The columns that are not penalised, their coefficients, one column per output, and the bias at their center;
        without linear columns the bias of the model.
    observed
        The targets of the user, one column per output, where Y is made of them: the spread is theirs.
    equations
        Tolerance of the equations of the support values; LAPACK's for a direct method unless given.
    """
    gram = cache(lambda: definite_gram(model.kernel_, X))
    alpha: Array = model._coefficients()
    alpha = alpha[:, None] if alpha.ndim == 1 else alpha
    if tuple(alpha.shape) != tuple(Y.shape):
        raise DataError(f"the model has support values of shape {tuple(alpha.shape)}, these rows need {tuple(Y.shape)}")
    check_home(model, alpha, X)

    def machines() -> Iterator[StoredSaddle]:
        targets, v = to_numpy(Y), to_numpy(weights)
        biases = np.atleast_1d(to_numpy(model.bias_ if bias is None else bias))
        fitted = np.reshape(to_numpy(model._fitted_values(X)), targets.shape)
        points = to_numpy(X)
        for column, gamma in zip(range(targets.shape[1]), gammas, strict=True):
            yield StoredSaddle(
                kernel=model.kernel_,
                points=points,
                gram=gram,
                y=targets[:, column],
                gamma=gamma,
                weights=v,
                a=own_copy(alpha[:, column]),
                b=float(biases[column]),
                fitted=fitted[:, column],
                tolerance=model._tolerance(),
                border=border,
                slopes=None if slopes is None else slopes[:, column],
                observed=None if observed is None else observed[:, column],
                equations=equations,
            )

    return StoredFit(machines(), lambda: ((), gram().record()))


class StoredSaddle(NamedTuple):
    """One output of a dense least-squares machine: its data, its stored numbers, and what ``predict`` returns.

    Parameters
    ----------
    kernel, points, gram
        The kernel, its points on the host, and a function that returns their kernel matrix.
    y, gamma, weights, border
        Targets, gamma, weights of the rows, and the columns that are not penalised.
    a, b, slopes
        Support values, bias, and coefficients of the border other than the constant.
    fitted
        What ``predict`` returns for the points.
    tolerance, equations
        The accuracy required of the fitted values, as a share of the spread of y, and of the equations of the support
        values.
    observed
        The targets of the user where y is made of them.
    """

    kernel: Kernel
    points: Any
    gram: Callable[[], Gram]
    y: Array
    gamma: float
    weights: Array
    a: Array
    b: float
    fitted: Array
    tolerance: float
    border: Border = ONES
    slopes: Array | None = None
    observed: Array | None = None
    equations: float | None = None

    def certify(self) -> Added:
        """Bound the answer, and check the equations of the support values."""
        gram, a = self.gram(), to_numpy(self.a)
        observed = self.y if self.observed is None else self.observed
        linear = None if self.slopes is None else self.slopes[:, None]
        question = AnswerProblem(
            kernel=self.kernel,
            X=self.points,
            Y=self.y[:, None],
            gammas=(self.gamma,),
            weights=self.weights,
            tolerances=(Tolerance.of(observed, self.weights, self.tolerance),),
            negative=gram.negative,
            border=self.border,
        )
        products = gram.product(self.a)
        answer, doubts = bound_answer(
            question,
            a[:, None],
            np.array([self.b]),
            products[:, None],
            gram.diagonal,
            gram,
            slopes=linear,
            fitted=self.fitted[:, None],
        )
        equations = saddle_row(
            to_numpy(products),
            to_numpy(gram.diagonal),
            self.y,
            ridge_of(self.gamma, self.weights),
            a,
            self.b,
            tolerance=self.equations,
            border=self.border,
            slopes=self.slopes,
        )
        return (*answer, equations), doubts

    def prove(self) -> "Proof":
        """Bound the answer in ball arithmetic."""
        from substrate.proof import (
            prove_expansion,
            tolerance_in_balls,  # for few, who have ball arithmetic
        )

        data = (self.points, self.y, self.gamma, self.weights)
        observed = self.y if self.observed is None else self.observed
        how: dict[str, Any] = {"tolerance": tolerance_in_balls(observed, self.weights, self.tolerance)}
        how |= {"border": self.border, "slopes": self.slopes}
        return prove_expansion(self.kernel, *data, to_numpy(self.a), self.b, self.fitted, **how)


def definite_gram(kernel: Kernel, X: Any) -> Gram:
    """Return the kernel matrix of the rows, tested for definiteness unless its formula guarantees that."""
    gram = Gram.of(kernel, X)
    if not kernel.trusted:
        gram.check_definite()
    return gram
