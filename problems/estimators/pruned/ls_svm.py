r"""Pruned LS-SVMs: few support vectors, by leaving out the rows with the smallest support values.

.. math:: \text{fit, sort } |\alpha_k|, \text{ remove the smallest few, fit again, until the index degrades}

[Suykens2002]_ Algorithm 2, [Carvalho2006]_ section 3.2. With ``sample_weight`` all machines are weighted LS-SVMs,
:math:`\alpha_k = \gamma v_k e_k`. A row of weight two leaves as one row, where of two equal rows one leaves before the
other: the errors are weighed, and rows are what leaves.

The index is over the N training rows, those that were pruned among them: the mean loss of f (``training``), or of
machines without a kept row or its fold, in closed form (``loo``, folds); or over rows given for that purpose. The loss
is the squared error of a regression, and one for each misclassified row. Where it degrades, gamma and the kernel's
widths may be chosen again nearby before pruning goes on.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from problems.estimators.full.robust import fit_reweighted
from problems.estimators.full.saddle_fit import Method, SaddleFit, fit_saddle, gammas_of
from problems.estimators.full.saddle_machine import SaddleModel
from problems.estimators.shared.base import WeightedRows
from problems.estimators.shared.checked_again import StoredFit, definite_gram, recall_saddle
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.coded import scores_of, winners
from problems.estimators.shared.encoding import PruningStep, read_robust, row_sizes
from problems.estimators.shared.left_out import leave_one_out, left_out_importance
from problems.estimators.shared.machine_rows import points_of
from problems.estimators.shared.probabilities import Calibration
from problems.estimators.shared.regressor import Regressor
from substrate.arrays import Array, check_memory, non_negative, positive, whole_number
from substrate.certificates import Certificate, warn_unless_holds
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.border import ONES
from substrate.least_squares.leave_one_out import (
    k_fold_residuals,
    leave_one_out_residuals,
    projected_diagonal,
    projected_inverse,
)
from substrate.least_squares.regularization import Regularization

__all__ = ["PrunedLSSVMClassifier", "PrunedLSSVMRegressor"]

_JUDGED = "cv must be 'training', 'loo', a number of folds >= 2, or None for validation rows; received {!r}"
#: Factors of gamma and of the widths tried around the present ones, and the number of moves of the centre.
_GAMMAS, _WIDTHS, _MOVES = (0.25, 1.0, 4.0), (2.0 / 3.0, 1.0, 1.5), 4


class _Step(NamedTuple):
    """One machine of the path: its rows, kernel and gamma, its fit, its index, and whether it was tuned again."""

    rows: Any
    kernel: Kernel
    gamma: float
    fit: SaddleFit
    score: float
    retuned: bool

    @property
    def robust(self) -> Array:
        """The robust weights of its rows; ones without a weighting."""
        return np.asarray(self.fit.further.get("weights_", np.ones(self.rows.size)))


@dataclass(frozen=True, slots=True)
class _Pruning:
    """The rows of positive weight and the rules, which are parameters of the ``model``.

    Parameters
    ----------
    model
        The estimator.
    rows, Y
        The rows, and their targets, one column per machine.
    groups
        The class of each row where the last row of a class must be kept, or None.
    losses
        From outputs at the judging rows to one loss per row.
    points
        The validation rows, where they are used.
    """

    model: Any
    rows: WeightedRows
    Y: Array
    groups: Any
    losses: Callable[[Array], Array]
    points: Any = None

    def limit(self, score: float) -> float:
        """Return the largest index that does not count as degraded: a share more, or for classes an amount more."""
        growth = float(self.model.growth)
        return score * (1.0 + growth) if self.groups is None else score + growth

    @property
    def least(self) -> int:
        """The number of rows that must be kept."""
        fewest = 2 if self.groups is None else max(2, int(self.groups.max()) + 1)
        return fewest if self.model.n_support is None else max(fewest, int(self.model.n_support))

    def fit(self, kernel: Kernel, gamma: float, gram: Gram, rows: Any, whole: Array | None, retuned: bool) -> _Step:
        """Return the machine on some of the rows with its index; ``gram`` is the kernel matrix of all.

        The index weighs rows by their weights in the machine on the ``whole`` of them, None for this one: an outlier
        then counts as little there as in the fit.
        """
        X, weights = points_of(self.rows.X, rows, kernel.pairwise), self.rows.weights[rows]
        data = (kernel, X, self.Y[rows], (gamma,) * self.Y.shape[1], weights)
        method, own = Method.closed_form(self.model._tolerance()), gram.restrict(rows)
        robust = getattr(self.model, "robust", None)  # of numbers only
        if robust is None:
            fit = fit_saddle(*data, method, gram=own)
        else:
            fit = fit_reweighted(read_robust(robust), *data, method, lambda _, v: ONES)
        step = _Step(rows, kernel, gamma, fit, np.nan, retuned)
        if self.points is not None:
            values = self.points[:, rows] if kernel.pairwise else kernel(self.points, X)
            return step._replace(score=float(self.losses(values @ fit.support_values + fit.bias).mean()))
        ridge = Regularization(gamma).ridge(weights * step.robust)
        outputs = gram.matrix[:, rows] @ fit.support_values + fit.bias
        outputs[rows] = self.Y[rows] - self.errors(own, ridge, fit.support_values, rows)
        judging = self.rows.weights * (step.robust if whole is None else whole)
        return step._replace(score=float(np.average(self.losses(outputs), weights=judging)))

    def errors(self, gram: Gram, ridge: Array, alpha: Array, rows: Any) -> Array:
        """Return the errors at the rows of a machine, of the machine or of that without the row or its fold."""
        cv = self.model.cv
        if cv == "training":
            return np.asarray(ridge[:, None] * alpha)
        of_rows = np.arange(rows.size) if cv == "loo" else rows % int(cv)
        folds = [np.flatnonzero(of_rows == fold) for fold in np.unique(of_rows)]
        if cv == "loo" or len(folds) == 1:  # where the remaining rows are one fold, each is left out alone
            return leave_one_out_residuals(alpha, projected_diagonal(gram, ridge))
        return k_fold_residuals(alpha, projected_inverse(gram, ridge), folds)

    def staying(self, step: _Step) -> Any:
        """Return the rows left after the next step, of the largest support values; never without a class."""
        count, share = step.rows.size, self.model.step
        wanted = int(share) if isinstance(share, Integral) else max(1, int(float(share) * count))
        wanted = min(wanted, count - self.least)
        order = step.rows[np.argsort(row_sizes(step.fit.support_values), kind="stable")]
        if self.groups is None:
            return np.sort(order[wanted:])
        members, leaving = np.bincount(self.groups[step.rows]), list[int]()
        for row in order:
            if len(leaving) < wanted and members[self.groups[row]] > 1:
                members[self.groups[row]] -= 1
                leaving.append(int(row))
        return np.setdiff1d(step.rows, leaving)

    def prune(self, kernel: Kernel, gamma: float) -> tuple[list[_Step], int]:
        """Prune until a number of rows is reached, or the index has degraded: the path, and the step chosen."""
        gram, target = definite_gram(kernel, self.rows.X), self.model.n_support
        what = f"pruning {gram.n} rows: kernel matrix, its inverse and a copy"
        check_memory(36.0 * gram.n**2, what, "Prune a reduced set of rows.")
        path = [self.fit(kernel, gamma, gram, np.arange(len(self.Y)), None, False)]
        whole, limit = path[0].robust, self.limit(path[0].score)
        while path[-1].rows.size > self.least:
            step = self.fit(kernel, gamma, gram, self.staying(path[-1]), whole, False)
            if step.score > limit and self.model.retune:
                better = self.retune(step, gram, whole)
                if better.score < step.score and (better.score <= limit or target is not None):
                    step, kernel, gamma = better, better.kernel, better.gamma
                    gram = definite_gram(kernel, self.rows.X)
                if target is not None:  # the number decides: search again when the next machine is worse
                    limit = max(limit, self.limit(step.score))
            path.append(step)
            if step.score > limit and target is None:
                return path, len(path) - 2
        return path, len(path) - 1

    def retune(self, step: _Step, gram: Gram, whole: Array) -> _Step:
        """Return the best machine on the same rows with gamma and widths nearby; the search moves while it improves."""
        best = step
        for _ in range(_MOVES):
            centre = best
            for width in _WIDTHS:
                kernel = _wider(centre.kernel, width)
                if kernel is None:
                    continue
                near = gram if kernel == step.kernel else definite_gram(kernel, self.rows.X)
                for gamma in (factor * centre.gamma for factor in _GAMMAS):
                    machine = self.fit(kernel, gamma, near, step.rows, whole, True)
                    best = machine if machine.score < best.score else best
            if best is centre:
                break
        return best

    def facts(self, path: list[_Step], chosen: int) -> tuple[tuple[str, str], ...]:
        """Return what was done, for the certificate."""
        model, step = self.model, path[chosen]
        index = "validation" if model.cv is None else model.cv if isinstance(model.cv, str) else "folds"
        why = f"{step.rows.size} rows were requested" if model.n_support is not None else "no more rows can be removed"
        if chosen + 1 < len(path):
            limit, after = self.limit(path[0].score), path[chosen + 1]
            why = f"the next machine, of {after.rows.size} rows, has {after.score:.4g} > {limit:.4g}"
        retuned = sum(before.retuned for before in path[: chosen + 1])
        pruned = f"{path[0].rows.size} rows to {step.rows.size} in {chosen} steps, retuned {retuned} times"
        scores = f"{path[0].score:.4g} of the whole machine, {step.score:.4g} here"
        facts = [("pruning", pruned), ("index", f"{index}: {scores}; {why}")]
        if (v := self.rows.weights).min() != v.max():
            facts.append(("sample_weight", f"{v.min():.3g} to {v.max():.3g}, of the errors, here and in the index"))
        return tuple(facts)


def _wider(kernel: Kernel, factor: float) -> Kernel | None:
    """Return the kernel with all its widths multiplied, or None where it has none."""
    if factor == 1.0:
        return kernel
    scales = kernel.scales().items()
    widths = {name: factor * value for name, value in scales if name.rpartition("__")[2].startswith("sigma")}
    return kernel.with_scales(widths) if widths else None


class PrunedCalibration(Calibration):
    """Rows left out in folds, of machines that are pruned as this one was."""

    def fold_machine(self, X: Any) -> Any:
        """Return a machine pruned to the same share of the rows, with the gamma and the kernel of this machine."""
        model = self.estimator
        most = int(0.8 * X.shape[0]) - model.classes_.size  # the rows of the smallest fold's machine
        kept = {"n_support": max(2, min(round(0.8 * model.support_.size), most)), "cv": "training"}
        parameters = {"gamma": model.gamma_, "kernel": model.kernel_, "retune": False}
        return super().fold_machine(X).set_params(**kept, **parameters)


class PrunedModel(SaddleModel):
    """The LS-SVM on the rows that were kept, and the path to it."""

    conditional = "the rows that were kept, kernel, gamma, weights and preparation of the columns"

    def fit(self, X: Any, y: Any, X_val: Any, y_val: Any, sample_weight: Any) -> None:
        """Prune, and keep the machine that was chosen."""
        model = self.estimator
        self.check_settings(X_val, y_val)
        (gamma,) = gammas_of(model.gamma, 1)
        X, y, weights = model._check_data(X, y, sample_weight, numeric=not model._labels)
        rows = model._keep_weighted(X, y, weights)
        coded = model._encode(rows.y)
        points, judged = None, rows.y
        if X_val is not None:
            points, judged = model._validation(X_val, y_val, numeric=not model._labels)
            coded.known_codes(judged)
        kernel, Y = model._resolved_kernel(rows.X), coded.codes(rows.y)
        if model.n_support is not None and model.n_support > Y.shape[0]:
            raise DataError(f"n_support = {model.n_support} is more than the {Y.shape[0]} rows")
        truth = coded.numbers(judged) if model._labels else judged

        def losses(outputs: Array) -> Array:
            values = outputs[:, 0] if outputs.shape[1] == 1 else outputs
            if not model._labels:
                return np.asarray(np.square(truth - values))
            return np.asarray(winners(scores_of(values, model.coding, coded.book)) != truth, dtype=np.float64)

        groups = coded.numbers(rows.y) if model._labels else None
        task = _Pruning(model=model, rows=rows, Y=Y, groups=groups, losses=losses, points=points)
        path, chosen = task.prune(kernel, gamma)
        step = path[chosen]
        certificate = Certificate(model._title, step.fit.rows, (*step.fit.facts, *task.facts(path, chosen)))
        warn_unless_holds(certificate)
        model.pruning_path_ = tuple(
            PruningStep(
                rows=rows.numbers[step.rows],
                support_values=_one_or_all(step.fit.support_values),
                score=step.score,
                gamma=step.gamma,
                kernel=step.kernel,
                retuned=step.retuned,
            )
            for step in path
        )
        model.step_, model.gamma_, model.weights_ = chosen, step.gamma, step.robust
        model.ridge_ = Regularization(step.gamma).ridge(rows.weights[step.rows] * step.robust)
        model._keep_classes(coded, Y[step.rows])
        model.certificate_ = certificate
        values = coded.sign(Y[step.rows], step.fit.support_values)
        bias = float(step.fit.bias[0]) if Y.shape[1] == 1 else step.fit.bias
        points = rows.X if step.kernel.pairwise else points_of(rows.X, step.rows, False)
        model._keep_expansion(points, rows.numbers[step.rows], step.kernel, _one_or_all(values), bias)

    def recall_fit(self, X: Any, y: Any, sample_weight: Any) -> StoredFit:
        """Return the rows that were kept among the data of the fit, with their robust weights and gammas."""
        model = self.estimator
        X, y, weights = model._check_again(X, y, sample_weight, numeric=not model._labels)
        known, first = model._keep_weighted(X, y, weights), model.pruning_path_[0].rows
        if known.numbers.size != first.size:
            raise DataError(f"the path began with {first.size} rows, these are {known.numbers.size}")
        if not np.array_equal(known.numbers, first):
            row = int(np.setdiff1d(first, known.numbers)[0])
            raise DataError(f"row {row} was fitted and has weight zero here; pass the sample_weight of the fit")
        Y = model._codes_again(known.y) if model._labels else known.y[:, None]
        places = np.searchsorted(known.numbers, model.support_)
        points = points_of(known.X, places, model.kernel_.pairwise)
        gammas, weights = (model.gamma_,) * Y.shape[1], known.weights[places] * model.weights_
        return recall_saddle(model, points, Y[places], weights, gammas)

    def check_settings(self, X_val: Any, y_val: Any) -> None:
        """Refuse settings before any work."""
        model = self.estimator
        model._check_coding()
        non_negative(model.growth, "growth", "as growth of the index")
        number = float(model.step) if isinstance(model.step, Real) and not isinstance(model.step, bool) else 0.0
        if not (number >= 1.0 if isinstance(model.step, Integral) else 0.0 < number < 1.0):
            raise DeclarationError(f"step must be a share in (0, 1) or a number of rows >= 1, received {model.step!r}")
        if model.n_support is not None:
            whole_number(model.n_support, "n_support", 2)
        if getattr(model, "robust", None) is not None:
            read_robust(model.robust)
        count = isinstance(model.cv, Integral) and not isinstance(model.cv, bool) and int(model.cv) >= 2
        if not (count or model.cv is None or (isinstance(model.cv, str) and model.cv in ("training", "loo"))):
            raise DeclarationError(_JUDGED.format(model.cv))
        if (X_val is None) != (y_val is None):
            raise DataError("X_val and y_val come together; one of them is missing")
        if (model.cv is None) != (X_val is not None):
            raise DataError(
                "cv=None needs X_val and y_val, and no other cv takes them: "
                f"received cv={model.cv!r} {'without' if X_val is None else 'with'} them"
            )

    def check_loaded(self) -> None:
        """Refuse a path that no fit leaves."""
        model = self.estimator
        super().check_loaded()
        if model.ridge_.shape != model.support_.shape:
            raise DataError("the diagonal of the system and the support do not belong together")
        path = model.pruning_path_
        if not isinstance(path, tuple) or not all(isinstance(step, PruningStep) and _is_whole(step) for step in path):
            raise DataError("pruning_path_ must be a sequence of pruning steps, each with as many numbers as rows")
        if isinstance(model.step_, bool) or not isinstance(model.step_, int) or not 0 <= model.step_ < len(path):
            raise DataError(f"step_ must be one of the {len(path)} steps, received {model.step_!r}")
        if not np.array_equal(path[model.step_].rows, model.support_):
            raise DataError("the support is not that of the step chosen")


def _one_or_all(columns: Array) -> Array:
    """Return the column of a single machine, or those of all."""
    return np.ascontiguousarray(columns[:, 0] if columns.shape[1] == 1 else columns)


def _is_whole(step: PruningStep) -> bool:
    """Return whether rows and support values of a step belong together."""
    rows, values = step.rows, step.support_values
    if not (isinstance(rows, np.ndarray) and isinstance(values, np.ndarray) and isinstance(step.kernel, Kernel)):
        return False
    return rows.ndim == 1 and rows.dtype.kind in "iu" and values.shape[:1] == rows.shape


@dataclass(eq=False, repr=False)
class PrunedLSSVMRegressor(Regressor):
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
    cv : {"training", "loo"}, int or None, default="training"
        How a machine is judged, by the mean squared error over all training rows: fitted; with each kept row left out;
        with folds left out (for a number, row i is in fold i modulo that number), in closed form; None is validation
        rows, ``X_val`` and ``y_val`` in :meth:`fit`. Pruned rows are left out already, and predicted as they are.
    growth : float, default=0.1
        Share by which the index may exceed that of the machine on all rows.
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
    weights_ : array of shape (n_support,)
        Its robust weights, without ``sample_weight``; ones without ``robust``.
    ridge_ : array of shape (n_support,)
        The diagonal 1/(gamma v) of its system, ``sample_weight`` included.
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

    _model_type = PrunedModel
    _typical = ({"cv": "loo"},)
    _page, _title, _location = "ls_svm_regression", "Pruned LS-SVM regression", "kept"
    gamma: Any = 1.0
    _: KW_ONLY
    step: Any = 0.05
    n_support: Any = None
    cv: Any = "training"
    growth: float = 0.1
    retune: bool = False
    robust: Any = None

    leave_one_out = leave_one_out
    left_out_importance = left_out_importance

    def fit(self, X: Any, y: Any, X_val: Any = None, y_val: Any = None, sample_weight: Any = None) -> Self:
        """Fit to rows X and targets y, and prune; validation rows are for ``cv=None``.

        ``sample_weight`` weighs the errors, in every machine and in the index; validation rows count alike. Rows of
        weight zero are absent.

        :place [Suykens2002]_ Algorithm 2: weighted LS-SVM pruning
        """
        self._begin_fit()
        self._model.fit(X, y, X_val, y_val, sample_weight)
        return self


@dataclass(eq=False, repr=False)
class PrunedLSSVMClassifier(Classifier):
    """The least-squares support vector classifier with few support vectors ([Carvalho2006]_ section 3.2).

    Parameters
    ----------
    kernel, gamma, tol, step, n_support, cv, retune
        As for :class:`PrunedLSSVMRegressor`. The last row of a class is always kept.
    growth : float, default=0.01
        Amount by which the share of misclassified rows may exceed that of the machine on all rows.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines, all on the same rows; a row's size is then the norm of its
        support values. To prune each pair of classes separately, use scikit-learn's ``OneVsOneClassifier``.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        As for :class:`~problems.LSSVMClassifier`, from decision values of rows left out in five folds.

    Attributes
    ----------
    classes_, code_book_, support_codes_
        As for :class:`~problems.LSSVMClassifier`.
    pruning_path_ : tuple of PruningStep
        Every machine of the path, with support values in the sign of regression on the labels.
    step_, gamma_, weights_, ridge_
        As for :class:`PrunedLSSVMRegressor`.
    support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        As for :class:`~problems.LSSVMClassifier`, of the rows left.
    """

    _model_type, _calibration_type = PrunedModel, PrunedCalibration
    _typical = ({"cv": "loo"},)
    _page, _title = "ls_svm_classification", "Pruned LS-SVM classification (as regression on the labels)"
    _location = "kept"
    gamma: float = 1.0
    _: KW_ONLY
    step: Any = 0.05
    n_support: Any = None
    cv: Any = "training"
    growth: float = 0.01
    retune: bool = False
    coding: str = "one_vs_rest"
    calibration: Literal["sigmoid", "isotonic"] | None = "sigmoid"

    leave_one_out = leave_one_out
    left_out_importance = left_out_importance

    def fit(self, X: Any, y: Any, X_val: Any = None, y_val: Any = None, sample_weight: Any = None) -> Self:
        """Fit to rows X and labels y of any kind, and prune; validation rows are for ``cv=None``.

        ``sample_weight`` is that of :class:`PrunedLSSVMRegressor`.

        :place [Carvalho2006]_ section 3.2: pruning of the classifier
        """
        self._begin_fit()
        positive(self.gamma, "gamma")
        self._model.fit(X, y, X_val, y_val, sample_weight)
        return self

    def _check_coding(self) -> None:
        super()._check_coding()
        if self.coding == "one_vs_one":
            raise DeclarationError(
                "coding 'one_vs_one' has other rows in every machine and cannot be pruned as one; use 'one_vs_rest', "
                "'minimum_output' or 'ecoc', or scikit-learn's OneVsOneClassifier around this estimator"
            )
