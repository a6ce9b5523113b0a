"""The importance of inputs for machines on a reduced basis: by their leverages, the training rows given again."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from problems.estimators.reduced.machine import ReducedMachine
from problems.estimators.shared.importance import LeftOutImportance, Losses, importance_of, refuse_matrix
from substrate.arrays import Array
from substrate.errors import DataError
from substrate.namespaces import to_numpy
from substrate.uncertainty.own_rows import MachinesWithoutRows, OwnRows

__all__ = ["ReducedImportance"]


class ReducedImportance(ReducedMachine):
    """A model keeps its basis and not its rows: they are given again."""

    def left_out_importance(
        self, X: Any = None, y: Any = None, n_repeats: int = 5, random_state: Any = 0, *, sample_weight: Any = None
    ) -> LeftOutImportance:
        """What every input is worth: the loss of left-out predictions when its values are permuted, without a refit.

        Each row is predicted by the machine fitted without it on the same basis, once as it is and once with the input
        of another row; the cost of an input and a repetition is that of :meth:`predict`.

        Parameters
        ----------
        X, y : array
            The training rows, in memory, and their targets.
        n_repeats : int, default=5
            Permutations of each input.
        random_state : int, Generator, RandomState or None, default=0
            Where permutations come from.
        sample_weight : array of shape (n_samples,), default=None
            That of the fit, also the weights of the rows in the mean.

        Returns
        -------
        LeftOutImportance
            ``importances_mean``, ``importances_std`` and ``importances``, in the units of the mean square error or of
            the accuracy. Basis, kernel, gamma and scaling are not chosen again.
        """
        check_is_fitted(self)
        refuse_matrix(self)
        if X is None:
            raise DataError(
                f"{type(self).__name__} keeps its basis and not its rows; give the training rows again, "
                "left_out_importance(X, y), and their sample_weight if there was one"
            )
        self._check_leverages("left_out_importance needs")
        with self._reading_again(X, y, sample_weight) as data:
            rows = self._training_rows(data)
            held = data.source.whole("the values of an input are permuted in memory")
            known = self._without_rows(rows, self._fitted_gamma())
        residuals = np.stack([to_numpy(one.residuals) for one in known], axis=1)
        targets: Array = to_numpy(held.Y)
        machines = OwnRows(
            (MachinesWithoutRows(np.arange(residuals.shape[1]), known[0].influence, residuals),),
            None,
            lambda points: np.reshape(to_numpy(self._evaluated(points)), (-1, residuals.shape[1])),
        )
        losses = Losses.of_model(self, targets, None if rows.weights is None else to_numpy(rows.weights))
        return importance_of(machines, held.X, targets - residuals, losses, n_repeats, random_state)
