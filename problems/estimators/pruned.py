r"""Pruned LS-SVMs: few support vectors, by leaving out the rows with the smallest support values.

.. math:: \text{fit, sort } |\alpha_k|, \text{ remove the smallest few, fit again, until the index degrades}

[Suykens2002]_ Algorithm 2, [Carvalho2006]_ section 3.2. With ``sample_weight`` all machines are weighted LS-SVMs,
:math:`\alpha_k = \gamma v_k e_k`. A row of weight two leaves as one row, whereas of two equal rows one leaves before
the other: weights multiply errors, and rows leave.

The index is over the N training rows, those that were pruned among them: the mean loss of f (``training``), or of
machines without a kept row, in closed form (``loo``). The loss is the squared error of a regression, and one for each
misclassified row. Where it degrades, gamma and the kernel's
widths may be chosen again nearby before pruning continues.
"""

import warnings
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from problems.estimators.chosen.rules import widen
from problems.estimators.full.ls_svm import LSSVMClassifier, LSSVMRegressor
from problems.estimators.full.robust import read_robust
from problems.estimators.shared.base import Facts, WeightedRows, weight_facts
from problems.estimators.shared.checks import definite_gram
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.held_machine import HoldsMachine
from problems.estimators.shared.regressor import Regressor
from substrate.arrays import Array, non_negative, positive, take_points, whole_number
from substrate.certificate import Certificate, warn_unless_holds
from substrate.errors import DataError, DeclarationError, IndefiniteKernelWarning
from substrate.kernels import Kernel
from substrate.robust_weights import check_choice
from substrate.values import Record

__all__ = ["PrunedLSSVMClassifier", "PrunedLSSVMRegressor"]

#: Factors of gamma and of the widths tried around the present ones, and the number of moves of the centre.
_GAMMAS, _WIDTHS, _MOVES = (0.25, 1.0, 4.0), (2.0 / 3.0, 1.0, 1.5), 4


@dataclass(frozen=True, slots=True, eq=False)
class PruningStep(Record):
    """One machine of a pruning path.

    ``rows`` are the training rows left, with their support values (in the sign of regression, one column per machine
    where there are several); ``score`` is the performance index of this machine, the smaller the better; ``gamma`` and
    ``kernel`` were used in its fit; ``retuned`` states that they were chosen again at this step.
    """

    rows: NDArray[np.intp]
    support_values: Array
    score: float
    gamma: float
    kernel: Kernel
    retuned: bool

    @property
    def size(self) -> int:
        """Return the number of rows left."""
        return int(self.rows.size)

    @property
    def sizes(self) -> Array:
        """Return |alpha_i|, or the Euclidean norm over the machines where there are several."""
        values = self.support_values
        return np.abs(values) if values.ndim == 1 else np.asarray(np.linalg.norm(values, axis=1))

    @property
    def spectrum(self) -> Array:
        """Return the sorted support value spectrum: sizes of the support values, largest first."""
        return np.asarray(np.sort(self.sizes)[::-1])


#: A step of the path, and its machine.
_Fitted = tuple[PruningStep, Any]


@dataclass(frozen=True, slots=True)
class _Pruning:
    """The rows of positive weight, and the rules, which are parameters of the ``model``."""

    model: Any
    rows: WeightedRows

    def limit(self, score: float) -> float:
        """Return the largest index that does not count as degraded: a share more, or for classes an amount more."""
        growth = float(self.model.growth)
        return score + growth if self.model._labels else score * (1.0 + growth)

    @property
    def least(self) -> int:
        """Return the number of rows that must be kept."""
        fewest = max(2, np.unique(self.rows.y).size) if self.model._labels else 2
        return fewest if self.model.n_support is None else max(fewest, int(self.model.n_support))

    def fit(self, kernel: Kernel, gamma: float, kept: Any, whole: Array | None, retuned: bool = False) -> _Fitted:
        """Return the machine on some of the rows with its index.

        The index weighs rows by their robust weights in the machine on the ``whole`` of them, None for this one: an
        outlier then counts as little there as in the fit.
        """
        X, y, weights, *_ = self.rows
        machine = self.model._machine_with(self.model._plain_type, kernel=kernel, gamma=gamma)
        machine.fit(take_points(X, kept, kernel.pairwise), y[kept], weights[kept])
        predictions = machine.predict(X[:, kept] if kernel.pairwise else X)
        if self.model.cv == "loo":
            left_out = machine.leave_one_out(take_points(X, kept, True) if kernel.pairwise else None)
            predictions[kept] = left_out.predictions
        losses = predictions != y if self.model._labels else np.square(predictions - y)
        score = float(np.average(losses, weights=weights * (_robust_weights(machine) if whole is None else whole)))
        values, rows = machine.support_values_, self.rows.numbers[kept]
        return PruningStep(rows, values, score, gamma, machine.kernel_, retuned), machine

    def staying(self, step: PruningStep) -> Any:
        """Return the rows left after the next step, of the largest support values; never without a class."""
        share, kept = self.model.step, self.rows.places(step.rows)
        wanted = int(share) if isinstance(share, Integral) else max(1, int(float(share) * step.size))
        wanted = min(wanted, step.size - self.least)
        order = kept[np.argsort(step.sizes, kind="stable")]
        if not self.model._labels:
            return np.sort(order[wanted:])
        classes = np.unique(self.rows.y, return_inverse=True)[1]
        members, leaving = np.bincount(classes[kept]), list[int]()
        for row in order:
            if len(leaving) < wanted and members[classes[row]] > 1:
                members[classes[row]] -= 1
                leaving.append(int(row))
        return np.setdiff1d(kept, leaving)

    def prune(self, kernel: Kernel, gamma: float) -> tuple[list[_Fitted], int]:
        """Prune until a number of rows is reached, or the index has degraded: the path, and the step chosen."""
        target = self.model.n_support
        path = [self.fit(kernel, gamma, np.arange(len(self.rows.y)), None)]
        whole, limit = _robust_weights(path[0][1]), self.limit(path[0][0].score)
        while path[-1][0].size > self.least:
            step, machine = self.fit(kernel, gamma, self.staying(path[-1][0]), whole)
            if step.score > limit and self.model.retune:
                better, retuned = self.retune(step, machine, whole)
                if better.score < step.score and (better.score <= limit or target is not None):
                    step, machine, kernel, gamma = better, retuned, better.kernel, better.gamma
                if target is not None:  # the number decides: search again when the next machine is worse
                    limit = max(limit, self.limit(step.score))
            path.append((step, machine))
            if step.score > limit and target is None:
                return path, len(path) - 2
        return path, len(path) - 1

    def retune(self, step: PruningStep, machine: Any, whole: Array) -> _Fitted:
        """Return the best machine on the same rows with gamma and widths nearby; the search moves while it improves."""
        best, kept = (step, machine), self.rows.places(step.rows)
        for _ in range(_MOVES):
            centre, _ = best
            for kernel in dict.fromkeys(widen(centre.kernel, width) for width in _WIDTHS):
                for gamma in (factor * centre.gamma for factor in _GAMMAS):
                    tried = self.fit(kernel, gamma, kept, whole, True)
                    best = tried if tried[0].score < best[0].score else best
            if best[0] is centre:
                break
        return best

    def facts(self, path: tuple[PruningStep, ...], chosen: int) -> Facts:
        """Return what was done, for the certificate."""
        model, step = self.model, path[chosen]
        why = f"{step.size} rows were requested" if model.n_support is not None else "no more rows can be removed"
        if chosen + 1 < len(path):
            limit, after = self.limit(path[0].score), path[chosen + 1]
            why = f"the next machine, of {after.size} rows, has {after.score:.4g} > {limit:.4g}"
        retuned = sum(before.retuned for before in path[: chosen + 1])
        pruned = f"{path[0].size} rows to {step.size} in {chosen} steps, retuned {retuned} times"
        scores = f"{path[0].score:.4g} of the whole machine, {step.score:.4g} here"
        return ("pruning", pruned), ("index", f"{model.cv}: {scores}; {why}"), *weight_facts(self.rows.weights)


def _robust_weights(machine: Any) -> Array:
    """Return the robust weights of the rows of a machine; ones without a weighting."""
    return np.asarray(getattr(machine, "weights_", np.ones(machine.support_.size)))


@dataclass(eq=False, repr=False)
class PrunedEstimator(HoldsMachine):
    """The pruning of numbers or of classes: its parameters, and the fit.

    It comes before the task; :class:`PrunedLSSVMRegressor` documents the parameters.
    """

    _typical = ({"cv": "loo"},)
    gamma: Any = 1.0
    _: KW_ONLY
    step: Any = 0.05
    n_support: Any = None
    cv: Any = "training"
    growth: float = 0.1
    retune: bool = False

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows X and targets y, or labels of any kind, and prune.

        ``sample_weight`` weighs the errors, in every machine and in the index. Rows of weight zero are absent.

        :place [Suykens2002]_ Algorithm 2: weighted LS-SVM pruning
        :place [Carvalho2006]_ section 3.2: pruning of the classifier
        """
        self._begin_fit()
        self._check_settings()
        gamma = positive(self.gamma, "gamma")
        rows = self._read_rows(X, y, sample_weight)
        self._encode(rows.y)  # refuses a single class
        if self.n_support is not None and self.n_support > rows.y.shape[0]:
            raise DataError(f"n_support = {self.n_support} is more than the {rows.y.shape[0]} rows")
        pruning, kernel = _Pruning(self, rows), self._resolved_kernel(rows.X)
        whole = definite_gram(kernel, rows.X).record()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # each machine has its certificate
            warnings.simplefilter("ignore", IndefiniteKernelWarning)  # once is enough
            path, chosen = pruning.prune(kernel, gamma)
        step, machine = path[chosen]
        self.pruning_path_ = tuple(each for each, _ in path)
        self.step_, self.gamma_ = chosen, step.gamma
        altered = (fact for fact in whole if fact[0] == "alteration")
        answer = machine.certificate_
        record = (*dict.fromkeys((*answer.record, *altered)), *pruning.facts(self.pruning_path_, chosen))
        self.certificate_ = Certificate(self._title, answer.rows, record)
        warn_unless_holds(self.certificate_)
        self.training_rows_, self.machine_ = step.rows, machine
        return self

    def _check_settings(self) -> None:
        """Refuse settings before any work."""
        non_negative(self.growth, "growth", "as growth of the index")
        number = float(self.step) if isinstance(self.step, Real) and not isinstance(self.step, bool) else 0.0
        if not (number >= 1.0 if isinstance(self.step, Integral) else 0.0 < number < 1.0):
            raise DeclarationError(f"step must be a share in (0, 1) or a number of rows >= 1, received {self.step!r}")
        if self.n_support is not None:
            whole_number(self.n_support, "n_support", 2)
        if getattr(self, "robust", None) is not None:
            read_robust(self.robust)
        check_choice(self.cv, ("training", "loo"), "cv")


@dataclass(eq=False, repr=False)
class PrunedLSSVMRegressor(PrunedEstimator, Regressor):
    """Least-squares support vector regression with few support vectors ([Suykens2002]_ Algorithm 2).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.LSSVMRegressor`.
    gamma : float, default=1.0
        Weight of the squared errors against the norm.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.
    step : float or int, default=0.05
        Rows removed at a time: a share of the rows left, at least one row; or a number of rows.
    n_support : int, default=None
        Number of rows at which pruning stops, whatever the index; None lets the index decide.
    cv : {"training", "loo"}, default="training"
        How a machine is judged, by the mean squared error over all training rows: fitted, or with each kept row left
        out, in closed form. Pruned rows are left out already, and predicted unchanged.
    growth : float, default=0.1
        Share by which the index may exceed the index of the machine on all rows.
    retune : bool, default=False
        Whether gamma and the kernel's widths are searched nearby where the index degrades, before pruning stops.
    robust : {"hampel", "huber", "logistic", "myriad", "density"} or Robust, default=None
        Robust weights as of :class:`~problems.LSSVMRegressor`, found at every step as in the paper; None prunes the
        plain LS-SVM, which keeps outliers longest, where the weighted one drops them first.

    Attributes
    ----------
    pruning_path_ : tuple of PruningStep
        Every machine of the path: its rows, support values, sorted spectrum, score, gamma and kernel.
        The last is the one whose index degraded, if one did.
    step_ : int
        The number of the chosen machine.
    gamma_ : float
        Its gamma.
    machine_ : LSSVMRegressor
        The machine itself, on the rows ``training_rows_``, which has its robust weights, and leave-one-out.
    support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        As for :class:`~problems.LSSVMRegressor`, of the rows left.

    Examples
    --------
    >>> from problems import PrunedLSSVMRegressor
    >>> from substrate.datasets import motorcycle
    >>> from substrate.kernels import RBF
    >>> X, y = motorcycle()
    >>> model = PrunedLSSVMRegressor(kernel=RBF(sigma=6.6), gamma=2.0, n_support=40).fit(X, y)
    >>> model.support_.size, len(model.pruning_path_)
    (40, 28)
    """

    _page, _title = "ls_svm_regression", "Pruned LS-SVM regression"
    _plain_type = LSSVMRegressor
    _: KW_ONLY
    robust: Any = None


@dataclass(eq=False, repr=False)
class PrunedLSSVMClassifier(PrunedEstimator, Classifier):
    """The least-squares support vector classifier with few support vectors ([Carvalho2006]_ section 3.2).

    Parameters
    ----------
    kernel, gamma, tol
        As for :class:`PrunedLSSVMRegressor`.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines, all on the same rows; a row's size is then the norm of its
        support values. To prune each pair of classes separately, use scikit-learn's ``OneVsOneClassifier``.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        As for :class:`~problems.LSSVMClassifier`, from decision values of rows left out in five folds.
    step, n_support, cv, retune
        As for :class:`PrunedLSSVMRegressor`. The last row of a class is always kept.
    growth : float, default=0.01
        Amount by which the share of misclassified rows may exceed the share of the machine on all rows.

    Attributes
    ----------
    classes_, code_book_
        As for :class:`~problems.LSSVMClassifier`.
    pruning_path_ : tuple of PruningStep
        Every machine of the path, with support values in the sign of regression on the labels.
    step_, gamma_, machine_
        As for :class:`PrunedLSSVMRegressor`.
    support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        As for :class:`~problems.LSSVMClassifier`, of the rows left.
    """

    _page, _title = "ls_svm_classification", "Pruned LS-SVM classification (as regression on the labels)"
    _plain_type = LSSVMClassifier
    _: KW_ONLY
    growth: float = 0.01

    def _fold_machine(self, X: Any) -> Any:
        """Return a machine pruned to the same share of the rows, with the gamma and the kernel of this machine."""
        most = int(0.8 * X.shape[0]) - self.classes_.size  # the rows of the smallest fold's machine
        kept = {"n_support": max(2, min(round(0.8 * self.support_.size), most)), "cv": "training"}
        parameters = {"gamma": self.gamma_, "kernel": self.kernel_, "retune": False}
        return super()._fold_machine(X).set_params(**kept, **parameters)
