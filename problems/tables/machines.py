"""The machines of a table: which one is searched or fitted, and which rows are held out.

========  ==========================  =======================================
name      estimator                   what is chosen, and by what
========  ==========================  =======================================
stack     ``StackedLSSVM...``         machines and their weights, leave-one-out
lssvm     ``LSSVM...CV``              gamma, kernel, leave-one-out
sparse    ``LSSVM...CV(basis=...)``   gamma, kernel, leave-one-out
========  ==========================  =======================================

``auto`` is lssvm, or sparse where a kernel matrix of all rows is too large to decompose often. A sparse machine has 300
basis vectors, and twice as many, up to 1200, as long as its left-out error falls by 3 % and the sums over its rows stay
below 4e10 products. Of a given time the search of kernels may take half, and a basis grows while that and the fit to
all rows are expected to end in time. With a given gamma the plain machine is fitted instead; a stack takes no gamma.
The kernels are ``kernels="families"``; where the rows are few, the best of them is refined by gradients; a kernel that
is named is tried at a few widths.

Rows of one patient, batch or site are alike, and so are neighbours in time. If some of them train and others test, a
model that recognises the group looks better than it is on new groups. Groups are therefore held out whole, and in time
the last rows are. The search leaves out whole groups; in time a regression predicts later rows from earlier ones, since
a kernel that follows a trend between its rows may know nothing beyond the last one, and a classification leaves out
every row with its neighbours.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from problems.tables.options import kernel_of
from problems.tables.quality import LEFT_OUT, Quality, digits, measure_quality
from substrate.arrays import Array
from substrate.basis import Basis
from substrate.errors import DataError
from substrate.kernels import RBF, Categorical, Kernel, Laplacian, Linear, Matern

__all__ = ["EVALUATIONS", "MOST_DENSE", "Search", "divide", "outputs_of"]

#: Training rows up to which the model ``auto`` decomposes the kernel matrix of all of them.
MOST_DENSE = 2000
#: Vectors with which a sparse model begins, the most it grows to, and the most products of features that a pass sums.
_FEWEST, _MOST, _MOST_PRODUCTS = 300, 1200, 4e10
#: By which factor the left-out error has to fall for a basis to grow, how much more time one of twice as many vectors
#: takes, and with it the fit to all rows.
_FALLS, _SLOWER, _TO_FIT = 0.97, 4.0, 7.0 / 3.0
#: Training rows up to which slopes are followed from the best of the families, where all rows search, and evaluations.
_MOST_SEARCHED, EVALUATIONS = {"stack": 0, "lssvm": 1000}, 40
#: The share of the time that a search of kernels may take, and how often nested intervals of few rows repeat it.
_TO_SEARCH, _REPEATED = 0.5, 11
#: One kernel of each family; widths of a kernel, as multiples of the median distance of the training rows.
_FAMILIES: tuple[Kernel, ...] = (Linear(), RBF(), Laplacian(), Matern(nu=1.5), Matern(nu=2.5))
_WIDTHS = (0.25, 0.5, 1.0, 2.0)
#: Families that are added to a plane where rows are in the order of time.
_WITH_A_PLANE: tuple[Kernel, ...] = (RBF(), Matern(nu=2.5))
#: Folds where left-out errors have no closed form; rows from which earlier ones can predict later ones in two.
_FOLDS, _FEWEST_IN_TIME = 5, 4
#: Machines of a stack that are named.
_MOST_MACHINES = 3
#: The criteria that choose gamma, in words.
_CRITERION_WORDS = {
    "loo": "leave-one-out",
    "groups": "leave-group-out",
    "blocks": "leave-block-out",
    "folds": "cross-validation",
}


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """The options by which a machine is chosen and fitted.

    ``groups`` has the group of every row (None: no groups); ``in_time`` states that rows are in the order of time, and
    ``time_column`` is the column of the time; ``category_columns`` have a separate kernel. ``seconds`` is the time that
    is left, and ``ended_by_time`` whether it ended the search.
    """

    task: str
    model: str = "lssvm"
    kernel: Any = "families"
    sigma: float | None = None
    gamma: float | None = None
    class_weight: Any = None
    n_basis: int | None = None
    max_evaluations: int | None = None
    random_state: int = 0
    verbose: int = 0
    groups: Any = None
    in_time: bool = False
    time_column: int | None = None
    category_columns: tuple[int, ...] = ()
    seconds: float | None = None
    ended_by_time: bool = False

    @property
    def rule(self) -> str:
        """Return the value of ``cv`` for what is left out together: single rows, groups, or blocks of neighbours."""
        if self.in_time:
            return "blocks"
        return "loo" if self.groups is None else "groups"

    @property
    def criterion(self) -> str:
        """Return the criterion that chooses gamma, a key of ``_CRITERION_WORDS``."""
        in_folds = self.rule != "loo" and (self.model == "sparse" or (self.in_time and self.task == "regression"))
        return "folds" if in_folds else self.rule

    @property
    def tries_families(self) -> bool:
        """Return whether the kernel is chosen among the families."""
        return self.sigma is None and self.gamma is None and isinstance(self.kernel, str) and self.kernel == "families"

    def folds(self, n: int) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Return folds of the rows: of whole groups, in time of rows that follow those that train, or drawn at random.

        Earlier rows need not have all classes: the folds of a classification are neighbours in time.
        """
        from sklearn.model_selection import GroupKFold, KFold, TimeSeriesSplit

        rows = np.empty((n, 0))
        if self.in_time and self.task == "regression" and n >= _FEWEST_IN_TIME:
            return list(TimeSeriesSplit(min(_FOLDS, max(n // _FEWEST_IN_TIME, 2))).split(rows))
        if self.in_time:
            return list(KFold(min(_FOLDS, n)).split(rows))
        if self.groups is None:
            return list(KFold(min(_FOLDS, n), shuffle=True, random_state=self.random_state).split(rows))
        return list(GroupKFold(min(_FOLDS, np.unique(self.groups).size)).split(rows, groups=self.groups))

    def fit(self, X: Array, y: Any) -> tuple[Any, bool]:
        """Return the machine, fitted to the rows, its weight given or chosen, and whether the time ended the search."""
        start, limit = time.monotonic(), math.inf if self.seconds is None else self.seconds
        kernel = self._with_categories(kernel_of(self.kernel, self.sigma), X.shape[1])
        n = X.shape[0]
        if self.gamma is not None:
            return self._new("", n, kernel=kernel, gamma=self.gamma).fit(X, y), False
        kernels = self._kernels(kernel, X)
        tried: dict[str, Any] = {"kernel": kernel} if kernels is None else {"kernel": kernel, "kernels": kernels}
        most = _MOST_SEARCHED.get(self.model, n)
        budget = (EVALUATIONS if n <= most else 0) if self.max_evaluations is None else self.max_evaluations
        if self.tries_families and budget and self.model != "stack":
            # whether inputs have separate widths is decided by single rows
            shared = {} if self.rule == "loo" else {"widths": "shared"}
            tried |= {"search": "gradient", "max_evaluations": budget, **shared}
        to_search = _TO_SEARCH * limit / (_REPEATED if n <= most and self.model == "lssvm" else 1)
        machine = self._choose(X, y, tried | ({"time_limit": to_search} if self.seconds is not None else {}))
        is_late = time.monotonic() > start + to_search
        if self.model == "sparse" and self.n_basis is None:
            return self._grow(machine, X, y, start + limit, is_late)
        return machine, is_late

    def _choose(self, X: Array, y: Any, tried: dict[str, Any], n_basis: int | None = None) -> Any:
        """Return the machine whose gamma, and kernel among those that are tried, predict the rows left out best."""
        n, options, groups = X.shape[0], dict[str, Any](), dict[str, Any]()
        if self.criterion == "folds":
            # sums over the rows allow no folds whose later rows are absent
            in_order = self.model == "sparse" and self.in_time and self.task == "regression"
            options["cv"] = _FOLDS if in_order else self.folds(n)
        elif self.rule != "loo":
            options["cv"], groups = self.rule, {"groups": self.groups}
        return self._quiet(self._new("CV", n, n_basis, **options, **tried).fit(X, y, **groups))

    def _grow(self, machine: Any, X: Array, y: Any, deadline: float, is_late: bool) -> tuple[Any, bool]:
        """Return the machine with twice as many vectors, and twice as many again, while its left-out error falls and
        the time suffices, and whether this or ``is_late`` ended the search.
        """
        n, n_basis = X.shape[0], 2 * _FEWEST
        while n_basis <= min(_MOST, n // 2) and n * n_basis**2 <= _MOST_PRODUCTS:
            needed = _SLOWER * _TO_FIT * float(np.max(machine.cv_results_["mean_fit_time"]))
            if time.monotonic() + needed > deadline:
                return machine, True
            wider = self._choose(X, y, {"kernel": machine.kernel_}, n_basis)
            if not wider.criterion_ < _FALLS * machine.criterion_:
                break
            machine, n_basis = wider, 2 * n_basis
        return machine, is_late

    def refit(self, machine: Any, X: Array, y: Any) -> Any:
        """Return a machine with the kernel and gamma of a fitted one, fitted to other rows. A stack keeps the kernels
        of positive weight, with new gammas and weights.
        """
        if self.model != "stack":
            gamma = float(getattr(machine, "gamma_", machine.gamma))
            n_basis = machine.basis_indices_.size if self.model == "sparse" else None
            return self._new("", X.shape[0], n_basis, kernel=machine.kernel_, gamma=gamma).fit(X, y)
        weighed = zip(machine.estimators_, machine.stack_weights_, strict=True)
        kernels = [member.kernel_ for member, weights in weighed if np.any(weights)]
        return self._quiet(self._new("CV", X.shape[0], kernels=kernels).fit(X, y))

    def judge(self, machine: Any, X: Array, y: NDArray[Any], X_val: Array, y_val: NDArray[Any]) -> Quality:
        """Measure the quality of a machine of the training rows ``X, y`` on held-out rows, or by leaving training rows
        out, in closed form where that is possible, and otherwise in folds.
        """
        if y_val.size:
            rivals = self._simple_predictions(X, y, X_val) if self.task == "regression" else {}
            outputs = outputs_of(machine, X_val)
            return measure_quality("held-out rows", y_val, machine.predict(X_val), outputs, y, rivals=rivals)
        caveat = "" if self.gamma is not None else "these rows also chose the kernel and gamma"
        if self.rule != "loo" or not hasattr(machine, "leave_one_out"):
            return self._leave_folds_out(machine, X, y, caveat)
        on_a_basis = hasattr(machine, "basis_indices_")  # keeps its basis and not its rows
        left_out = machine.leave_one_out(X, y) if on_a_basis else machine.leave_one_out()
        outputs = np.asarray(left_out.outputs if self.task == "classification" else [])
        return measure_quality(LEFT_OUT, y, np.asarray(left_out.predictions), outputs, y, caveat=caveat)

    def _leave_folds_out(self, machine: Any, X: Array, y: NDArray[Any], caveat: str) -> Quality:
        """Measure the quality by machines of the same kernel and gamma, fitted again without each fold."""
        judged, predicted, outputs = [], [], []
        for train, test in self.folds(y.size):
            if self.task == "classification" and np.unique(y[train]).size < np.unique(y).size:
                alone = "one fold has all rows of a class, so no fold could be left out: errors on new rows are larger"
                of_training = machine.predict(X), outputs_of(machine, X)
                return measure_quality("training rows", y, *of_training, y, caveat=alone)
            without = self.refit(machine, X[train], y[train])
            judged.append(test)
            predicted.append(without.predict(X[test]))
            outputs.append(outputs_of(without, X[test]))
        rows = "rows, predicted in folds from other times" if self.in_time else "rows, left out in folds"
        left_out = y[np.concatenate(judged)], np.concatenate(predicted), np.concatenate(outputs)
        return measure_quality(rows, *left_out, y, caveat=caveat)

    def _simple_predictions(self, X: Array, y: Array, X_val: Array) -> dict[str, Array]:
        """Return what the training rows predict without a machine: a straight line in all inputs, the last value."""
        rivals: dict[str, Array] = {}
        if X.shape[1] + 1 < X.shape[0]:
            line = np.linalg.lstsq(np.column_stack([np.ones(X.shape[0]), X]), y, rcond=None)[0]
            rivals["a straight line"] = line[0] + X_val @ line[1:]
        if self.in_time:
            rivals["the last value"] = np.full(X_val.shape[0], y[-1])
        return rivals

    def describe(self, machine: Any) -> str:
        """Return the kernel and gamma of a machine, and how they were chosen, in words."""
        if self.model == "stack":
            u = machine.stack_weights_
            order = [int(m) for m in np.argsort(-u, kind="stable") if u[m] > 0.0]
            named = [f"{u[m]:.0%} {_kernel_name(machine.estimators_[m].kernel_)}" for m in order[:_MOST_MACHINES]]
            more = [f"and {len(order) - _MOST_MACHINES} more"] if len(order) > _MOST_MACHINES else []
            return f"model: a stack, weights by leave-one-out error: {'; '.join([*named, *more])}"
        kernel = f"kernel {_kernel_name(machine.kernel_)}"
        if self.model == "sparse":
            kernel = f"{kernel} on {machine.basis_indices_.size} basis vectors"
        if self.gamma is not None:
            return f"model: {kernel}; gamma {self.gamma:g}, as given"
        n_tried = len(getattr(machine, "cv_results_", {}).get("param_kernel", []))
        tried = f", of {n_tried} kernels" if n_tried > 1 else ""
        tried += ", ended by the time given" if self.ended_by_time else ""
        gamma = digits(np.ravel(getattr(machine, "gamma_", machine.gamma))[0])
        return f"model: {kernel}; gamma {gamma}; by {_CRITERION_WORDS[self.criterion]} error{tried}"

    def _new(self, searches: str, n_rows: int, n_basis: int | None = None, **parameters: Any) -> Any:
        """Return the estimator, "CV" or plain, with seed, weights of classes and bars as far as it has them, and a
        basis of so many vectors if it is sparse.
        """
        from problems.estimators.chosen.selection import LSSVMClassifierCV, LSSVMRegressorCV  # the help needs none
        from problems.estimators.chosen.stacked import StackedLSSVMClassifier, StackedLSSVMRegressor
        from problems.estimators.full.ls_svm import LSSVMClassifier, LSSVMRegressor

        estimators: dict[str, tuple[Any, Any]] = {
            "": (LSSVMRegressor, LSSVMClassifier),
            "CV": (LSSVMRegressorCV, LSSVMClassifierCV),
            "stack": (StackedLSSVMRegressor, StackedLSSVMClassifier),
        }
        estimator = estimators["stack" if self.model == "stack" else searches][self.task == "classification"]
        further: dict[str, Any] = {"random_state": self.random_state, "verbose": self.verbose}
        if self.model == "sparse":
            n_vectors = n_basis or self.n_basis or _FEWEST
            further["basis"] = Basis(min(n_vectors, n_rows), random_state=self.random_state)
        if parameters.get("cv") == "blocks":
            further["reach"] = round(n_rows ** (1.0 / 3.0))
        if self.class_weight is not None:
            further["class_weight"] = self.class_weight
        accepted = estimator().get_params(deep=False)
        return estimator(**parameters, **{name: value for name, value in further.items() if name in accepted})

    @staticmethod
    def _quiet(machine: Any) -> Any:
        """Switch the progress bars off: how a fit was shown is no part of a model."""
        return machine.set_params(verbose=0) if "verbose" in machine.get_params(deep=False) else machine

    def _kernels(self, kernel: Kernel, X: Array) -> Any:
        """Return the kernels that are tried."""
        if not self.tries_families:
            return _widths(kernel, X)
        kernels: Any = "families"
        if self.category_columns:
            kernels = [self._with_categories(family, X.shape[1]) for family in _FAMILIES]
        elif self.in_time and self.task == "regression":
            kernels = self._kernels_in_time(X)
        return kernels

    def _with_categories(self, kernel: Kernel, n_inputs: int) -> Kernel:
        """Return the kernel of the numeric columns times the kernel of the categories, which has a width for each
        column."""
        if not self.category_columns:
            return kernel
        categories = Categorical("each").on(*self.category_columns)
        numeric = [column for column in range(n_inputs) if column not in self.category_columns]
        return kernel.on(*numeric) * categories if numeric else categories

    def _kernels_in_time(self, X: Array) -> list[Kernel]:
        """Return the families at a few widths, alone and added to a plane; the time, if it is an input, is in the plane
        only.

        A stationary kernel returns to the mean beyond the last row, a plane continues; and how the other inputs act is
        known at later times only if this does not depend on time.
        """
        others = [column for column in range(X.shape[1]) if column != self.time_column]
        alone = [kernel for family in _FAMILIES[1:] for kernel in _widths(family, X) or [family]]
        if not others:
            return [Linear(), *alone]
        restricted = [kernel for family in _WITH_A_PLANE for kernel in _widths(family, X[:, others]) or [family]]
        return [Linear(), *alone, *(Linear() + kernel.on(*others) for kernel in restricted)]


def outputs_of(machine: Any, X: Array) -> Array:
    """Return the outputs by which a machine decides on classes; a regression has none."""
    return np.asarray(machine.decision_function(X) if hasattr(machine, "classes_") else [])


def _kernel_name(kernel: Kernel) -> str:
    """Return a kernel in few words: "Matern 5/2, one width per input"."""
    parts = [getattr(kernel, name, None) for name in ("left", "right", "kernel")]
    inner = [_kernel_name(part) for part in parts if isinstance(part, Kernel)]
    if inner:
        joined = " plus " if type(kernel).__name__ == "Sum" else " times "
        return joined.join(inner)
    name = f"Matern {round(2 * kernel.nu)}/2" if isinstance(kernel, Matern) else type(kernel).__name__
    width: Any = getattr(kernel, "sigma", None)
    if width is None:
        return name
    return f"{name}, one width per input" if np.ndim(width) else f"{name} of width {digits(width)}"


def _widths(kernel: Kernel, X: Array) -> list[Kernel] | None:
    """Return kernels of several widths around the median distance, where the width was not given."""
    if getattr(kernel, "sigma", None) != "median":
        return None
    middle: Any = kernel.resolved(X)
    return [replace(middle, sigma=share * middle.sigma) for share in _WIDTHS]


def divide(
    n: int, share: float, seed: int, *, labels: Any = None, groups: Any = None, times: Any = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the training rows and the held-out rows, about a ``share`` of them.

    With ``times`` the last rows are held out, and both are in the order of time; with ``groups`` whole groups; else
    rows drawn at random, in which ``labels`` keep their proportions where possible.
    """
    if times is not None:
        return _hold_out_last(times, share)
    return _draw(n, share, seed, labels) if groups is None else _hold_out_groups(groups, share, seed)


def _draw(n: int, share: float, seed: int, labels: Any) -> tuple[Any, Any]:
    from sklearn.model_selection import train_test_split

    every = np.arange(n)
    if share == 0.0:
        return every, every[:0]
    for stratify in (labels, None):  # a class may be too small to be cut in proportion
        try:
            train, held_out = train_test_split(every, test_size=share, random_state=seed, stratify=stratify)
        except ValueError:
            continue
        return np.sort(train), np.sort(held_out)
    raise DataError(
        f"{n} rows cannot be split by validation={share:g}, which would leave no row on one side; give more rows, or "
        "validation=0"
    )


def _hold_out_groups(groups: NDArray[Any], share: float, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    labels, numbers, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    least = 2 if share == 0.0 else 3
    if labels.size < least:
        raise DataError(
            f"the column of the group has {labels.size} {'group' if labels.size == 1 else 'groups'}; at least {least} "
            "are needed, of which two train; leave group=... out, or name another column"
        )
    order = np.random.default_rng(seed).permutation(labels.size)
    n_held = int(np.searchsorted(np.cumsum(sizes[order]), share * numbers.size)) + 1 if share else 0
    is_held = np.isin(numbers, order[: min(n_held, labels.size - 2)])
    return np.flatnonzero(~is_held), np.flatnonzero(is_held)


def _hold_out_last(times: NDArray[Any], share: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the rows that train and the last ones, both in the order of time; equal times are not divided."""
    order: Sequence[Any] | NDArray[Any] = np.argsort(times, kind="stable")
    if share == 0.0:
        return np.asarray(order), np.asarray(order)[:0]
    n_train = times.size - max(int(np.ceil(share * times.size)), 1)
    first = int(np.searchsorted(times[order], times[order[min(n_train, times.size - 1)]]))
    if first < 2:
        raise DataError(
            f"{times.size} rows cannot be divided in time by validation={share:g}, which would leave "
            f"{'no row' if first == 0 else 'one row'} to train; give more rows, or leave time=... out"
        )
    return np.asarray(order[:first]), np.asarray(order[first:])
