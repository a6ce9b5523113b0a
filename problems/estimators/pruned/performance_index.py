r"""What is pruned, and the index by which a machine is judged: over every training row, left-out or validation rows.

Pruned rows are not used by the machine. So over the N training rows

- ``training``: the mean loss of f, at kept and pruned rows alike;
- ``loo``, ``folds``: a kept row is predicted without itself, or without its fold, in closed form
  (:mod:`substrate.least_squares.leave_one_out`); a pruned row is predicted directly, since it is left out already;

and ``validation`` is the mean loss over rows given for that purpose. The loss is the squared error of a regression, and
one for each misclassified row. [Suykens2002]_ section 4 names these choices.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from problems.estimators.shared.encoding import row_sizes
from substrate.arrays import Array
from substrate.gram import Gram
from substrate.least_squares.leave_one_out import k_fold_residuals, leave_one_out_residuals

__all__ = ["Index", "Pruning", "Rows", "Snapshot"]

Loss = Callable[[Array], Array]
Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A machine on some of the rows: support values and outputs, one column per machine, at the rows kept."""

    rows: Rows
    support_values: Array
    bias: Array
    weights: Array
    outputs: Array


@dataclass(frozen=True, slots=True)
class Index:
    """A performance index, the smaller the better.

    Parameters
    ----------
    name
        "training", "loo", "folds" or "validation".
    loss
        From outputs at the judging rows (training or validation rows, one column per machine) to one loss per row.
    points
        The validation rows, if they are used.
    folds
        The fold of each training row, where folds are left out.
    weights
        The weights of the training rows, if any, robust and given: an outlier then counts as little here as in the
        fit. Validation rows have equal weights.
    """

    name: str
    loss: Loss
    points: Any = None
    folds: Rows | None = None
    weights: Array | None = None

    @property
    def leaves_out(self) -> bool:
        """Whether kept rows are predicted without themselves."""
        return self.name in ("loo", "folds")

    def outputs_at_kept_rows(
        self, Y: Array, ridge: Array, rows: Rows, alpha: Array, diagonal: Array, B: Callable[[], Array]
    ) -> Array:
        """Return the outputs at the kept rows, of the machine or of that without the row or its fold: y minus the
        error.
        """
        if self.name == "loo":
            return np.asarray(Y - leave_one_out_residuals(alpha, diagonal))
        if self.folds is not None:
            of_rows = self.folds[rows]
            folds = [np.flatnonzero(of_rows == fold) for fold in np.unique(of_rows)]
            if len(folds) == 1:  # the remaining rows are one fold: each is left out alone
                return np.asarray(Y - leave_one_out_residuals(alpha, diagonal))
            return np.asarray(Y - k_fold_residuals(alpha, B(), folds))
        return np.asarray(Y - ridge[:, None] * alpha)

    def scores(self, gram: Gram, cross: Array | None, machines: Sequence[Snapshot]) -> list[float]:
        """Score machines on fewer and fewer rows, by one product; ``cross`` is k(validation, training)."""
        most, fewest = machines[0].rows, machines[-1].rows
        place = np.full(gram.n, -1)
        place[most] = np.arange(most.size)
        outputs = machines[0].support_values.shape[1]
        stacked = np.zeros((most.size, len(machines) * outputs))
        for number, machine in enumerate(machines):
            stacked[place[machine.rows], number * outputs : (number + 1) * outputs] = machine.support_values
        if self.name == "validation":
            assert cross is not None
            outputs_seen = cross[:, most] @ stacked
            return [
                self._mean(outputs_seen[:, number * outputs : (number + 1) * outputs] + machine.bias)
                for number, machine in enumerate(machines)
            ]
        gone = np.ones(gram.n, dtype=bool)
        gone[fewest] = False
        (pruned,) = np.nonzero(gone)
        block = gram.matrix.take(pruned, axis=0)
        outputs_seen = (block if most.size == gram.n else block.take(most, axis=1)) @ stacked
        scores = []
        values = np.empty((gram.n, outputs))
        for number, machine in enumerate(machines):
            values[pruned] = outputs_seen[:, number * outputs : (number + 1) * outputs] + machine.bias
            values[machine.rows] = machine.outputs
            scores.append(self._mean(values))
        return scores

    def _mean(self, outputs: Array) -> float:
        weights = None if self.name == "validation" else self.weights
        losses = self.loss(outputs)
        return float(losses.mean() if weights is None else np.average(losses, weights=weights))


@dataclass(frozen=True, slots=True)
class Pruning:
    """The data of pruning, and when it stops.

    Parameters
    ----------
    X, Y
        Rows, and targets, one column per machine.
    groups
        The class of each row where the last row of a class must be kept, or None.
    step
        A share of the rows left, or a number of rows, to remove at a time.
    n_support
        The number of rows to stop at; None leaves the decision to the index.
    index, growth, relative
        The index, and the growth allowed over that of the whole machine: relative to it, or absolute.
    retune
        Whether gamma and the kernel's widths are chosen again where the index degrades.
    weighting, scale, reweight
        The robust weights, if any, and whether every step computes its own.
    given
        Positive weights of the rows, which multiply the robust ones; None: all are one.
    """

    X: Any
    Y: Array
    groups: Rows | None
    step: float | int
    n_support: int | None
    index: Index
    growth: float
    relative: bool
    retune: bool
    weighting: str | None = None
    scale: str = "iqr"
    reweight: bool = False
    given: Array | None = None

    def weigh_rows(self, rows: Rows, robust: Array) -> Array:
        """Return the weights of the errors of some rows: the given ones times the robust ones."""
        return robust if self.given is None else self.given[rows] * robust

    def limit(self, score: float) -> float:
        """Return the largest index that does not count as degraded."""
        return score * (1.0 + self.growth) if self.relative else score + self.growth

    @property
    def least(self) -> int:
        """The number of rows that must be kept."""
        fewest = 2 if self.groups is None else max(2, int(self.groups.max()) + 1)
        return fewest if self.n_support is None else max(fewest, self.n_support)

    def leavers(self, rows: Rows, alpha: Array) -> Rows:
        """Return the rows of the smallest support values: a step of them, at least one, and never the last of a
        class.
        """
        wanted = self.step if isinstance(self.step, int) else max(1, int(self.step * rows.size))
        wanted = min(wanted, rows.size - self.least)
        sizes = row_sizes(alpha)
        if self.groups is None and wanted == 1:
            smallest = int(sizes.argmin())
            return rows[smallest : smallest + 1]
        order = np.argsort(sizes, kind="stable")
        if self.groups is None:
            return rows[order[:wanted]]
        members = np.bincount(self.groups[rows])
        chosen: list[int] = []
        for row in rows[order]:
            if len(chosen) == wanted:
                break
            if members[self.groups[row]] > 1:
                members[self.groups[row]] -= 1
                chosen.append(int(row))
        return np.array(chosen, dtype=np.intp)

    def staying(self, machine: Snapshot) -> Rows:
        """Return the rows left after the next step."""
        return np.setdiff1d(machine.rows, self.leavers(machine.rows, machine.support_values))
