"""The search of an estimator: what chooses the parameters that its model does not take, on the rows of a fit.

One class has the rules that every search shares: candidate kernels, and the rows that validate. Its kinds say what is
chosen and how one kernel is judged: gamma on all rows (:mod:`problems.estimators.chosen.dense_search`) or on a basis
(:mod:`problems.estimators.chosen.basis_selection`), zeta or rho along a path
(:mod:`problems.estimators.chosen.fused_ways`).
"""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.model_selection import GroupKFold, LeaveOneOut, check_cv

from problems.estimators.chosen import families
from problems.estimators.chosen.candidates import held_out_rows, judged_by, trainable_splits
from problems.estimators.shared.checks import warn_if_unscaled
from substrate.arrays import is_device_array, is_sparse, positive
from substrate.errors import DataError, DeclarationError
from substrate.kernels import Kernel
from substrate.least_squares.leave_one_out import Split

__all__ = ["RowSplit", "Search"]

_NUMPY = (
    "folds, blocks and validation rows are of numpy arrays (X.cpu().numpy(), X.get()); on a device use cv='loo' or "
    "cv='gcv'"
)


@dataclass(frozen=True, slots=True)
class RowSplit:
    """Rows of the final machine: their numbers, points and targets; validation rows and targets; a description.

    ``held_out`` are the numbers of the rows that were held out.
    """

    rows: Any
    X: Any
    y: Any
    X_check: Any = None
    y_check: Any = None
    how: str = ""
    held_out: Any = None


@dataclass(frozen=True, eq=False, repr=False)
class Search:
    """A choice of parameters on the rows of a fit; kinds of it search, and keep what they found.

    Its rules are parameters of the estimator: ``kernels``, ``cv``, ``validation_fraction``, ``random_state``, ``gap``.
    """

    estimator: Any
    #: The words that ``cv`` may be.
    words: ClassVar[tuple[str, ...]] = ("loo",)
    #: Whether ``kernels`` may be "families".
    has_families: ClassVar[bool] = False

    @property
    def criterion(self) -> str:
        """How a machine is judged: on "folds" (every row one, where ``cv`` is "loo"), or on rows of "validation"."""
        judged = judged_by(self.estimator.cv, self.words, ", or None for validation rows")
        return "validation" if judged == "validation" else "folds"

    def check_rules(self) -> None:
        """Refuse parameters before any work."""
        model = self.estimator
        if self.criterion == "validation":
            held_out_rows(4, model.validation_fraction, 0)
        positive(model.gap, "gap")
        families.check_kernels(model.kernels, model.__sklearn_tags__().input_tags.pairwise, self.has_families)

    @property
    def gives_widths(self) -> bool:
        """Whether columns of different units get widths of their own."""
        return False

    def candidates(self, X: Any) -> list[Kernel]:
        """Return the kernels to judge, made of those given as the model makes its own, their widths as numbers."""
        model = self.estimator
        if model.kernels is None:
            return [model._resolved_kernel(X)]
        kernels = [model._model.own_kernel(kernel) for kernel in families.list_unresolved(model.kernels)]
        if not is_sparse(X) and not self.gives_widths:
            n = int(X.shape[1])
            compared = {columns: kernel for kernel in reversed(kernels) for columns in kernel.compared_columns(n)}
            for columns, kernel in compared.items():
                warn_if_unscaled(model, X, columns, kernel)
        return families.at_all_widths(model.kernels, (kernel.resolved(X) for kernel in kernels))

    def splits(self, X: Any, y: Any, kept: Any = None, groups: Any = None) -> tuple[Split, ...]:
        """Return the splits of ``cv``, by numbers among the rows ``kept`` of those given (None: all of them).

        A splitter, or a list of splits, names the rows that were given to fit; a number of folds names none, and
        divides the rows that are kept, drawn at random where there is a ``random_state``. No fold of a number of them
        divides one of the ``groups``.
        """
        if self.criterion not in ("folds", "blocks"):
            return ()
        if is_device_array(X):
            raise DeclarationError(_NUMPY)
        if self.criterion == "blocks":
            return ()
        cv, labels = self.estimator.cv, bool(self.estimator._labels)
        if kept is not None and isinstance(cv, Integral):
            X, y, groups, kept = X[kept], y[kept], None if groups is None else groups[kept], None
        if groups is not None and isinstance(cv, Integral):
            cv = GroupKFold(int(cv))
        splitter = LeaveOneOut() if isinstance(cv, str) else check_cv(cv, y, classifier=labels)
        if isinstance(cv, Integral) and self.estimator.random_state is not None:
            splitter.shuffle, splitter.random_state = True, self.estimator.random_state
        return trainable_splits(splitter.split(X, y, groups), X.shape[0], y if labels else None, kept)

    def part_rows(self, X: Any, y: Any, X_val: Any, y_val: Any) -> RowSplit:
        """Return the rows of the final machine, and validation rows if used: given, or a share of X."""
        model = self.estimator
        rows, labels = np.arange(X.shape[0]), y if model._labels else None
        if (X_val is None) != (y_val is None):
            raise DataError("X_val and y_val come together; one of them is missing")
        if self.criterion != "validation":
            if X_val is not None:
                raise DataError(f"X_val and y_val are used only with cv=None, received cv={model.cv!r}")
            return RowSplit(rows, X, y)
        if is_device_array(X):
            raise DeclarationError(_NUMPY)
        if X_val is not None:
            X_val, y_val = model._validation(X_val, y_val, numeric=labels is None, outputs=y.shape[1:])
            return RowSplit(rows=rows, X=X, y=y, X_check=X_val, y_check=y_val, how=f"{y_val.shape[0]} rows given")
        cut = held_out_rows(rows.size, model.validation_fraction, model.random_state, labels)
        ((train, test),) = trainable_splits([cut], rows.size, labels)
        return RowSplit(
            rows=train,
            X=self.take_points(X, train, train),
            y=y[train],
            X_check=self.take_points(X, test, train),
            y_check=y[test],
            how=f"{test.size} of {rows.size} rows held out",
            held_out=test,
        )

    def take_points(self, X: Any, rows: Any, columns: Any) -> Any:
        """Return some of the points; of a precomputed matrix, which has to be square, also some of the columns."""
        if not self.estimator.__sklearn_tags__().input_tags.pairwise:
            return X[rows]
        self.estimator._resolved_kernel(X)  # refuses a matrix that is not square
        return X[rows][:, columns]
