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
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted

from problems.estimators.full.saddle_fit import Method, fit_saddle, gammas_of
from problems.estimators.full.saddle_machine import LeavesOut, leave_one_out, left_out_importance
from problems.estimators.shared.checked_again import (
    GivenFit,
    certify_stored,
    recall_saddle,
    refuse_strange_classes,
)
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.coded import scores_of, winners
from problems.estimators.shared.encoding import PruningStep, row_sizes
from problems.estimators.shared.machine_rows import points_of
from problems.estimators.shared.probabilities import Calibration
from problems.estimators.shared.regressor import Regressor
from substrate.arrays import Array, check_memory, non_negative, positive, whole_number
from substrate.certificates import Certificate, warn_unless_holds
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.leave_one_out import (
    checked_splits,
    k_fold_residuals,
    leave_one_out_residuals,
    projected_diagonal,
    projected_inverse,
)
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.robust_weights import SCALES, WEIGHTINGS, check_choice, robust_scale, robust_weights
from substrate.least_squares.saddle_system import solve_saddle_system

__all__ = ["PrunedLSSVMClassifier", "PrunedLSSVMRegressor"]

_JUDGED = (
    "cv must be 'training', 'loo', a number of folds >= 2, a splitter, a list of splits, or None for validation rows; "
    "received {!r}"
)
#: Factors of gamma and of the widths tried around the present ones, and the number of moves of the centre.
_GAMMAS, _WIDTHS, _MOVES = (0.25, 1.0, 4.0), (2.0 / 3.0, 1.0, 1.5), 4


class _Rows(NamedTuple):
    """Rows of positive weight with their targets and weights, their numbers as given, and the targets of all."""

    X: Any
    y: Any
    weights: Array
    numbers: NDArray[np.intp]
    given: Any


class _Setting(NamedTuple):
    """A kernel and a gamma, the kernel matrix of all rows, and the kernel values of validation rows with them."""

    kernel: Kernel
    gamma: float
    gram: Gram
    cross: Array | None


@dataclass(frozen=True, slots=True)
class _Pruning:
    """The data of pruning, and its rules.

    Parameters
    ----------
    model
        The estimator, whose parameters are the rules.
    rows, Y
        The rows, and targets, one column per machine.
    groups
        The class of each row where the last row of a class must be kept, or None.
    index
        "training", "loo", "folds" or "validation".
    losses
        From outputs at the judging rows to one loss per row.
    points, folds
        The validation rows, or the fold of each training row, where they are used.
    """

    model: Any
    rows: _Rows
    Y: Array
    groups: Any
    index: str
    losses: Callable[[Array], Array]
    points: Any = None
    folds: Any = None

    def limit(self, score: float) -> float:
        """Return the largest index that does not count as degraded: a share more, or for classes an amount more."""
        growth = float(self.model.growth)
        return score * (1.0 + growth) if self.groups is None else score + growth

    @property
    def least(self) -> int:
        """The number of rows that must be kept."""
        fewest = 2 if self.groups is None else max(2, int(self.groups.max()) + 1)
        return fewest if self.model.n_support is None else max(fewest, int(self.model.n_support))

    def setting(self, kernel: Kernel, gamma: float) -> _Setting:
        """Return the matrices of a kernel on the rows, and with the validation rows if they are used."""
        gram = Gram.of(kernel, self.rows.X)
        if not kernel.trusted:
            gram.check_definite()
        advice = "Prune a reduced set of rows."
        check_memory(36.0 * gram.n**2, f"pruning {gram.n} rows: kernel matrix, its inverse and a copy", advice)
        if self.points is None:
            return _Setting(kernel, gamma, gram, None)
        return _Setting(kernel, gamma, gram, kernel(self.points, None if kernel.pairwise else self.rows.X))

    def robust(self, setting: _Setting, rows: Any) -> Array:
        """Return the robust weights of some rows by the errors of their plain machine, ones without a weighting."""
        weighting = getattr(self.model, "weighting", None)
        if weighting is None:
            return np.ones(rows.size)
        v = self.rows.weights[rows]
        ridge = Regularization(setting.gamma).ridge(v)
        solved = solve_saddle_system(setting.gram.restrict(rows), self.Y[rows, 0], ridge)
        errors = ridge * solved.support_values
        return robust_weights(errors, robust_scale(errors, self.model.scale, v), weighting)

    def fit(self, setting: _Setting, rows: Any, robust: Array | None, whole: Array, retuned: bool) -> PruningStep:
        """Return the machine on some of the rows with its index; ``robust`` are weights of all rows, None makes new
        ones.

        The index weighs rows by their weights in the machine on ``whole``, all of them: an outlier then counts as
        little there as in the fit.
        """
        v = self.robust(setting, rows) if robust is None else robust[rows]
        gram, Y = setting.gram.restrict(rows), self.Y[rows]
        ridge = Regularization(setting.gamma).ridge(self.rows.weights[rows] * v)
        solved = solve_saddle_system(gram, Y, ridge)
        alpha = solved.support_values
        if setting.cross is not None:
            score = float(self.losses(setting.cross[:, rows] @ alpha + solved.bias).mean())
        else:
            outputs = setting.gram.matrix[:, rows] @ alpha + solved.bias
            outputs[rows] = Y - self.errors(gram, ridge, alpha, rows)
            score = float(np.average(self.losses(outputs), weights=self.rows.weights * whole))
        single = alpha.shape[1] == 1
        return PruningStep(
            rows=rows,
            support_values=np.ascontiguousarray(alpha[:, 0] if single else alpha),
            bias=float(solved.bias[0]) if single else solved.bias,
            weights=v,
            score=score,
            gamma=setting.gamma,
            kernel=setting.kernel,
            retuned=retuned,
        )

    def errors(self, gram: Gram, ridge: Array, alpha: Array, rows: Any) -> Array:
        """Return the errors at the rows of a machine, of the machine or of that without the row or its fold."""
        if self.index == "training":
            return np.asarray(ridge[:, None] * alpha)
        of_rows = np.arange(rows.size) if self.folds is None else self.folds[rows]
        folds = [np.flatnonzero(of_rows == fold) for fold in np.unique(of_rows)]
        if self.folds is None or len(folds) == 1:  # where the remaining rows are one fold, each is left out alone
            return leave_one_out_residuals(alpha, projected_diagonal(gram, ridge))
        return k_fold_residuals(alpha, projected_inverse(gram, ridge), folds)

    def staying(self, step: PruningStep) -> Any:
        """Return the rows left after the next step, of the largest support values; never without a class."""
        count, share = step.size, self.model.step
        wanted = int(share) if isinstance(share, Integral) else max(1, int(float(share) * count))
        wanted = min(wanted, count - self.least)
        alpha = step.support_values if step.support_values.ndim > 1 else step.support_values[:, None]
        order = step.rows[np.argsort(row_sizes(alpha), kind="stable")]
        if self.groups is None:
            return np.sort(order[wanted:])
        members, leaving = np.bincount(self.groups[step.rows]), list[int]()
        for row in order:
            if len(leaving) < wanted and members[self.groups[row]] > 1:
                members[self.groups[row]] -= 1
                leaving.append(int(row))
        return np.setdiff1d(step.rows, leaving)

    def prune(self, kernel: Kernel, gamma: float) -> tuple[tuple[PruningStep, ...], int, Gram]:
        """Prune until a number of rows is reached, or the index has degraded: the path, the step chosen, its matrix."""
        setting, target = self.setting(kernel, gamma), self.model.n_support
        everyone = np.arange(self.Y.shape[0])
        whole = self.robust(setting, everyone)
        robust = None if getattr(self.model, "reweight", False) else whole
        path = [self.fit(setting, everyone, whole, whole, False)]
        limit = self.limit(path[0].score)
        while path[-1].size > self.least:
            before = setting
            step = self.fit(setting, self.staying(path[-1]), robust, whole, False)
            if step.score > limit and self.model.retune:
                better, better_setting = self.retune(setting, step, robust, whole)
                if better.score < step.score and (better.score <= limit or target is not None):
                    step, setting = better, better_setting
                if target is not None:  # the number decides: search again when the next machine is worse
                    limit = max(limit, self.limit(step.score))
            path.append(step)
            if step.score > limit and target is None:
                return tuple(path), len(path) - 2, before.gram
        return tuple(path), len(path) - 1, setting.gram

    def retune(
        self, setting: _Setting, step: PruningStep, robust: Array | None, whole: Array
    ) -> tuple[PruningStep, _Setting]:
        """Return the best machine on the same rows with gamma and widths nearby; the search moves while it improves."""
        best, centre = step, setting
        for _ in range(_MOVES):
            here, where = best, centre
            for width in _WIDTHS:
                kernel = _wider(centre.kernel, width)
                if kernel is None:
                    continue
                tried = centre if width == 1.0 else self.setting(kernel, centre.gamma)
                for factor in _GAMMAS:
                    if width == factor == 1.0:
                        continue
                    candidate = tried._replace(gamma=factor * centre.gamma)
                    machine = self.fit(candidate, step.rows, robust, whole, True)
                    if machine.score < here.score:
                        here, where = machine, candidate
            if here is best:
                break
            best, centre = here, where
        return best, centre

    def facts(self, path: tuple[PruningStep, ...], chosen: int) -> tuple[tuple[str, str], ...]:
        """Return what was done, for the certificate."""
        model, step = self.model, path[chosen]
        why = f"{step.size} rows were requested" if model.n_support is not None else "no more rows can be removed"
        if chosen + 1 < len(path):
            limit = self.limit(path[0].score)
            why = f"the next machine, of {path[chosen + 1].size} rows, has {path[chosen + 1].score:.4g} > {limit:.4g}"
        retuned = sum(step_before.retuned for step_before in path[: chosen + 1])
        facts = [
            ("pruning", f"{path[0].size} rows to {step.size} in {chosen} steps, retuned {retuned} times"),
            ("index", f"{self.index}: {path[0].score:.4g} of the whole machine, {step.score:.4g} here; {why}"),
        ]
        if (v := self.rows.weights).min() != v.max():
            facts.append(("sample_weight", f"{v.min():.3g} to {v.max():.3g}, of the errors, here and in the index"))
        if getattr(model, "weighting", None) is not None:
            whose = "found at every step" if model.reweight else "of the machine on all rows"
            facts.append(("weights", f"{model.weighting}, {model.scale} scale, {whose}"))
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


class PrunedModel(LeavesOut):
    """The LS-SVM on the rows that were kept, and the others of the path."""

    conditional = "the rows that were kept, kernel, gamma, weights and preparation of the columns"
    calibration_type = PrunedCalibration

    def fit(self, X: Any, y: Any, X_val: Any, y_val: Any, sample_weight: Any) -> None:
        """Prune, and keep the machine that was chosen."""
        model = self.estimator
        self.check_settings(X_val, y_val)
        (gamma,) = gammas_of(model.gamma, 1)
        rows = self.check_rows(X, y, sample_weight)
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

        task = _Pruning(
            model=model,
            rows=rows,
            Y=Y,
            groups=coded.numbers(rows.y) if model._labels else None,
            index="validation" if model.cv is None else model.cv if isinstance(model.cv, str) else "folds",
            losses=losses,
            points=points,
            folds=self.folds(rows),
        )
        path, chosen, gram = task.prune(kernel, gamma)
        step = path[chosen]
        data = (points_of(rows.X, step.rows, kernel.pairwise), Y[step.rows], (step.gamma,) * Y.shape[1])
        method, weights = Method.closed_form(model._tolerance()), rows.weights[step.rows] * step.weights
        fit = fit_saddle(step.kernel, *data, weights, method, gram=gram.restrict(step.rows))
        certificate = Certificate(model._title, fit.rows, (*fit.facts, *task.facts(path, chosen)))
        warn_unless_holds(certificate)
        single = Y.shape[1] == 1
        alpha = np.ascontiguousarray(fit.support_values[:, 0] if single else fit.support_values)
        step = replace(step, support_values=alpha, bias=float(fit.bias[0]) if single else fit.bias)
        model._keep_classes(coded, Y[step.rows])
        model.certificate_ = certificate
        self.keep(rows, (*path[:chosen], step, *path[chosen + 1 :]), chosen)

    def keep(self, known: _Rows, path: tuple[PruningStep, ...], chosen: int) -> None:
        """Set the fitted attributes; rows of the path are numbered as those of ``known``, and kept as given."""
        model, step = self.estimator, path[chosen]
        model.pruning_path_ = tuple(replace(step, rows=known.numbers[step.rows]) for step in path)
        model.step_, model.gamma_, model.weights_ = chosen, step.gamma, step.weights
        model.ridge_ = Regularization(step.gamma).ridge(known.weights[step.rows] * step.weights)
        points = known.X if step.kernel.pairwise else points_of(known.X, step.rows, False)
        signs = model.support_codes_ if model._labels else 1.0
        model._keep_expansion(points, known.numbers[step.rows], step.kernel, signs * step.support_values, step.bias)

    def recall_data(self, X: Any, y: Any, sample_weight: Any) -> GivenFit:
        """Return the rows of the chosen step among the data of the fit."""
        return self.given_fit(*self.rows_again(X, y, sample_weight))

    def rows_again(self, X: Any, y: Any, sample_weight: Any) -> tuple[_Rows, Array]:
        """Return the training rows given again, those that the path began with, and their targets or codes."""
        model = self.estimator
        checked = model._make_checker()._model.check_rows(X, y, sample_weight)
        first = model.pruning_path_[0].rows
        if checked.numbers.size != first.size:
            raise DataError(f"the path began with {first.size} rows, these are {checked.numbers.size}")
        if not np.array_equal(checked.numbers, first):
            row = int(np.setdiff1d(first, checked.numbers)[0])
            raise DataError(f"row {row} was fitted and has weight zero here; pass the sample_weight of the fit")
        if not model._labels:
            return checked, checked.y[:, None]
        refuse_strange_classes(model, checked.y)
        return checked, model.code_book_[np.searchsorted(model.classes_, checked.y)]

    def given_fit(self, known: _Rows, Y: Array) -> GivenFit:
        """Return the rows left of the training data given again, with their stored robust weights and gammas."""
        model = self.estimator
        places = np.searchsorted(known.numbers, model.support_)
        points = points_of(known.X, places, model.kernel_.pairwise)
        gammas, weights = (model.gamma_,) * Y.shape[1], known.weights[places] * model.weights_
        return GivenFit(X=points, Y=Y[places], weights=weights, gammas=gammas, tolerance=model._tolerance())

    def check_rows(self, X: Any, y: Any, sample_weight: Any) -> _Rows:
        """Return rows of positive weight and their targets, checked."""
        model = self.estimator
        X, targets, weights = model._check_data(X, y, sample_weight, numeric=not model._labels)
        X, y, weights, numbers = model._keep_weighted(X, targets, weights)
        return _Rows(X=X, y=y, weights=weights, numbers=numbers, given=targets)

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
        count = isinstance(model.cv, Integral) and not isinstance(model.cv, bool)
        is_word = isinstance(model.cv, str)
        if (is_word and model.cv not in ("training", "loo")) or isinstance(model.cv, (bool, float)):
            raise DeclarationError(_JUDGED.format(model.cv))
        if count and model.cv < 2:
            raise DeclarationError(_JUDGED.format(model.cv))
        if (X_val is None) != (y_val is None):
            raise DataError("X_val and y_val come together; one of them is missing")
        if (model.cv is None) != (X_val is not None):
            raise DataError(
                "cv=None needs X_val and y_val, and no other cv takes them: "
                f"received cv={model.cv!r} {'without' if X_val is None else 'with'} them"
            )

    def folds(self, rows: _Rows) -> Any:
        """Return the fold of each row, None without folds; splits name rows by their numbers as given."""
        model, n = self.estimator, len(rows.y)
        if model.cv is None or isinstance(model.cv, str):
            return None
        if isinstance(model.cv, Integral):
            return np.arange(n) % int(model.cv)
        n_given, y, folds = len(rows.given), rows.given, np.full(n, -1)
        splits = check_cv(model.cv, y, classifier=model._labels).split(np.empty((n_given, 0)), y)
        for number, (train, test) in enumerate(checked_splits(splits, n_given, rows.numbers)):
            if train.size + test.size != n or (folds[test] >= 0).any():
                raise DataError(f"split {number} of cv is no fold: every row must be left out once and train otherwise")
            folds[test] = number
        if (folds < 0).any():
            row = int(rows.numbers[folds.argmin()])
            raise DataError(f"cv never leaves out row {row}; every row must be left out once")
        return folds

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


def _is_whole(step: PruningStep) -> bool:
    """Return whether rows, weights and support values of a step belong together."""
    arrays = (step.rows, step.weights, step.support_values)
    if not all(isinstance(array, np.ndarray) and array.ndim for array in arrays) or not isinstance(step.kernel, Kernel):
        return False
    return step.rows.dtype.kind in "iu" and len({array.shape[0] for array in arrays}) == 1


def _model_at(self: Any, step: int, X: Any, y: Any, sample_weight: Any = None) -> Any:
    """Return the machine of another step as a separate model, from the training rows, and certified on them."""
    check_is_fitted(self)
    if isinstance(step, bool) or not isinstance(step, Integral):
        raise DeclarationError(f"step must be an integer, received {step!r}")
    steps = len(self.pruning_path_)
    if not -steps <= int(step) < steps:
        raise DeclarationError(f"the path has steps 0 to {steps - 1}, received {step}")
    number = int(step) % steps
    known, Y = self._model.rows_again(X, y, sample_weight)
    path = tuple(replace(step, rows=np.searchsorted(known.numbers, step.rows)) for step in self.pruning_path_)
    model = copy(self)
    if model._labels:
        codes = Y[path[number].rows]
        model.support_codes_ = np.ascontiguousarray(codes[:, 0] if codes.shape[1] == 1 else codes)
    model._model.keep(known, path, number)
    certificate = certify_stored(model._title, recall_saddle(model, model._model.given_fit(known, Y)))
    model.certificate_ = replace(certificate, title=f"{model._title}, step {number}")
    warn_unless_holds(model.certificate_)
    if model._labels:
        model._calibration.begin_by(known.X, known.y, known.weights)
    return model


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
    cv : {"training", "loo"}, int, splitter, iterable or None, default="training"
        How a machine is judged, by the mean squared error over all training rows: fitted; with each kept row left out;
        with folds left out (for a number, row i is in fold i modulo that number), in closed form; None is validation
        rows, ``X_val`` and ``y_val`` in :meth:`fit`. Pruned rows are left out already, and predicted as they are.
    growth : float, default=0.1
        Share by which the index may exceed that of the machine on all rows.
    retune : bool, default=False
        Whether gamma and the kernel's widths are searched nearby where the index degrades, before pruning stops.
    weighting : {"hampel", "huber", "logistic", "myriad"}, default=None
        Robust weights as of :class:`~problems.LSSVMRegressor`; None prunes the plain LS-SVM, which keeps outliers
        longest, where the weighted one drops them first.
    scale : {"iqr", "mad"}, default="iqr"
        The robust scale of the weights.
    reweight : bool, default=False
        Whether every step computes new weights, as in the paper, by two fits per step; otherwise those of the machine
        on all rows are kept.

    Attributes
    ----------
    pruning_path_ : tuple of PruningStep
        Every machine of the path: its rows, weights, support values, sorted spectrum, bias, score, gamma and kernel.
        The last is the one whose index degraded, if one did.
    step_ : int
        The number of the chosen machine.
    gamma_ : float
        Its gamma.
    weights_ : array of shape (n_support,)
        Its robust weights, without ``sample_weight``; ones without ``weighting``.
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
    >>> model.support_.size, model.model_at(0, X, y).support_.size
    (40, 133)
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
    weighting: Any = None
    scale: str = "iqr"
    reweight: bool = False

    leave_one_out = leave_one_out
    left_out_importance = left_out_importance
    model_at = _model_at

    def fit(self, X: Any, y: Any, X_val: Any = None, y_val: Any = None, sample_weight: Any = None) -> Self:
        """Fit to rows X and targets y, and prune; validation rows are for ``cv=None``.

        ``sample_weight`` weighs the errors, in every machine and in the index; validation rows count alike. Rows of
        weight zero are absent.

        :place [Suykens2002]_ Algorithm 2: weighted LS-SVM pruning
        """
        self._begin_fit()
        if self.weighting is not None:
            check_choice(self.weighting, WEIGHTINGS, "weighting")
        check_choice(self.scale, SCALES, "scale")
        if self.reweight and self.weighting is None:
            raise DeclarationError("reweight=True finds weights at every step: choose a weighting")
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

    _model_type = PrunedModel
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
    model_at = _model_at

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
