"""The base of machines that choose: the rules of a search, over kernels or over the logarithms of their parameters, the
search, its table, and its rows of a certificate."""

from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.model_selection import check_cv

from problems.estimators.chosen import families
from problems.estimators.chosen.candidates import (
    Judged,
    held_out_rows,
    judge,
    judged_by,
    over_candidates,
    tabulated,
    trainable_splits,
)
from problems.estimators.chosen.certified_search import certified_search, check_certified, most_evaluations
from problems.estimators.chosen.further_gamma import look_further
from problems.estimators.chosen.joint_criterion import Joint
from problems.estimators.chosen.kernel_search import best_of, check_slopes, descend_families, kernels_fact, nelder_mead
from problems.estimators.chosen.tasks import Task, centred_points
from problems.estimators.chosen.term_weights import winner
from problems.estimators.chosen.width_rule import Way, Widths, best_to_search, check_widths, refined
from problems.estimators.full.saddle_fit import Method, SaddleFit, fit_saddle
from problems.estimators.shared.checks import warn_if_unscaled
from substrate.arrays import Array, is_sparse, positive, whole_number
from substrate.certificates import Row
from substrate.certificates.rounding import relative_rounding
from substrate.certificates.rows import Accuracy, roundoff
from substrate.device_gram import gram_kind
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
from substrate.kernels import RBF, Kernel
from substrate.least_squares.leave_one_out import ROBUST, leave_one_out_residuals, projected_diagonal
from substrate.least_squares.saddle_system import ridge_of, target_unit
from substrate.namespaces import is_device_array, on_device_of, to_numpy
from substrate.progress import Progress
from substrate.search.gamma_search import GAP, gamma_ends
from substrate.search.range_end import HIGHEST_PRICE, is_affordable
from substrate.threads import blas_threads

__all__ = ["ModelSearch", "Parted"]

_NUMPY = "folds and validation rows are numpy arrays (X.cpu().numpy(), X.get()); on a device use cv='loo' or cv='gcv'"


@dataclass(frozen=True, slots=True)
class Parted:
    """Rows of the final machine: their numbers, points and targets; validation rows and targets; a description.

    ``held`` are the numbers of the rows that were held out.
    """

    rows: Any
    X: Any
    y: Any
    X_check: Any = None
    y_check: Any = None
    how: str = ""
    held: Any = None

    def described(self, fit: SaddleFit, task: Task) -> SaddleFit:
        """The fit with the method of validation among its facts."""
        how = {"loo": "every row left out in turn", "folds": f"{len(task.splits)} folds"}.get(task.criterion, self.how)
        return replace(fit, facts=(*fit.facts, ("validated on", how))) if how else fit


@dataclass(eq=False, repr=False, kw_only=True)
class ModelSearch:
    """The parameters of a search, checked; the search; and its fitted attributes."""

    _solvers: ClassVar[tuple[str, ...]] = ()
    _chooses: ClassVar[str | None] = "gamma"
    kernels: Any = None
    cv: Any = "loo"
    loss: str = "squared"
    validation_fraction: float = 0.25
    random_state: Any = None
    gamma_range: Any = None
    gap: float = GAP
    search: str | None = None
    max_evaluations: int | None = None
    widths: Widths | None = None
    n_jobs: int | None = None
    verbose: int = 0
    sigma_range: Any = None
    width_gap: float = 0.01
    # what a search chooses or does not use is no parameter of its machine
    gamma: Any = field(default=None, init=False)
    solver: str = field(default="auto", init=False)

    #: The supported losses of leave-one-out residuals.
    _losses: ClassVar[tuple[str, ...]] = ("squared", *ROBUST)

    @classmethod
    def recommended(cls, **changes: Any) -> Self:
        """The estimator that ``substrate fit`` uses, with ``changes``: families of kernels, refined where it can."""
        own = {one.name for one in fields(cls) if one.init}
        return cls(**({name: value for name, value in families.RECOMMENDED.items() if name in own} | changes))

    @property
    def _criterion(self) -> str:
        """The criterion: "loo", "gcv", "evidence", "folds", "validation", or a loss of leave-one-out residuals."""
        return judged_by(self.cv, self.loss, self._losses)

    def _check_rules(self) -> None:
        """Refuse parameters before any work."""
        if self._criterion == "validation":
            held_out_rows(4, self.validation_fraction, 0)
        positive(self.gap, "gap")
        if self.gamma_range is not None:
            gamma_ends(self.gamma_range)
        if self.search not in (None, "nelder-mead", "gradient", "certified"):
            raise DeclarationError(
                f"search must be None, 'nelder-mead', 'gradient' or 'certified', received {self.search!r}"
            )
        check_widths(self.widths, self.search)
        if self.max_evaluations is not None:
            whole_number(self.max_evaluations, "max_evaluations", 1)
        check_certified(self.search, self._criterion, self.sigma_range, self.width_gap)
        families.check_kernels(self.kernels, self.__sklearn_tags__().input_tags.pairwise)  # type: ignore[attr-defined]

    def _candidates(self, X: Any) -> list[Kernel]:
        """The kernels to judge, their widths as numbers, each once."""
        if self.kernels is None:
            return [self._resolved_kernel(X)]  # type: ignore[attr-defined]
        if families.is_families(self.kernels) and not is_sparse(X):
            warn_if_unscaled(self, X, tuple(range(X.shape[1])), RBF())
        given = families.unresolved(self.kernels)
        return families.at_all_widths(self.kernels, (kernel.resolved(X) for kernel in given))

    def _way(self) -> Widths | None:
        """What a search by slopes may do with a shared width."""
        return "auto" if self.widths is None and families.is_families(self.kernels) else self.widths

    def _splits(self, X: Any, y: Any, classifier: bool, kept: Any = None) -> Any:
        """The splits of ``cv``, by numbers among the rows ``kept`` of those given (None: all of them).

        A splitter, or a list of splits, names the rows that were given to fit; a number of folds names none, and
        divides the rows that are kept.
        """
        if self._criterion != "folds":
            return ()
        if is_device_array(X):
            raise DeclarationError(_NUMPY)
        if kept is not None and isinstance(self.cv, Integral):
            X, y, kept = X[kept], y[kept], None
        splitter = check_cv(self.cv, y, classifier=classifier)
        return trainable_splits(splitter.split(X, y), X.shape[0], y if classifier else None, kept)

    def _parted(self, X: Any, y: Any, X_val: Any, y_val: Any, labels: bool) -> Parted:
        """The rows of the final machine, and validation rows if used: given, or a share of X."""
        rows = np.arange(X.shape[0])
        if self._criterion != "validation":
            if X_val is not None or y_val is not None:
                raise DataError(f"X_val and y_val judge where cv is None, received cv={self.cv!r}")
            return Parted(rows, X, y)
        if is_device_array(X):
            raise DeclarationError(_NUMPY)
        if (X_val is None) != (y_val is None):
            raise DataError("X_val and y_val come together; one of them is missing")
        if X_val is not None:
            X_val, y_val = self._validation(X_val, y_val, numeric=not labels, outputs=y.shape[1:])  # type: ignore[attr-defined]
            return Parted(rows, X, y, X_val, y_val, f"{y_val.shape[0]} rows given")
        cut = held_out_rows(rows.size, self.validation_fraction, self.random_state, y if labels else None)
        ((train, test),) = trainable_splits([cut], rows.size, y if labels else None)
        X_train, X_check = X[train], X[test]
        if self.__sklearn_tags__().input_tags.pairwise:  # type: ignore[attr-defined]
            self._resolved_kernel(X)  # type: ignore[attr-defined]  # refuses a matrix that is not square
            X_train, X_check = X_train[:, train], X_check[:, train]
        return Parted(train, X_train, y[train], X_check, y[test], f"{test.size} of {rows.size} rows held out", test)

    def _searched(self, kernels: list[Kernel], task: Task) -> list[Judged]:
        by_slopes = self.search == "gradient"
        factors = by_slopes and any(Joint.fits(kernel, task) for kernel in kernels)
        most = most_evaluations(self.search, self.max_evaluations, factors)
        if by_slopes:
            check_slopes(kernels, task.X, task.criterion)
        progress = Progress(len(kernels) + (most if self.search else 0), shown=bool(self.verbose))
        try:
            if self.search == "certified":
                return certified_search(kernels, task, self.sigma_range, self.width_gap, most, progress.step)
            with blas_threads(int(task.Y.shape[0])):
                return self._searched_locally(kernels, task, most, progress)
        finally:
            progress.close()

    def _searched_locally(self, kernels: list[Kernel], task: Task, most: int, progress: Progress) -> list[Judged]:
        """The candidates, or one of each family where it descends, and what a search goes on to from the best one."""
        by_slopes, judged = self.search == "gradient", None
        if by_slopes and families.is_families(self.kernels):
            few = max(len(families.MULTIPLES), most // 8)
            judged = descend_families(families.at_median_widths(kernels), task, few, self.n_jobs, progress)
        if judged is None:
            slopes = by_slopes and len(kernels) == 1 and not Joint.fits(kernels[0], task)
            judged = best_of(kernels, task, self.n_jobs, progress, slopes)
        if by_slopes:
            return refined(judged, Way.on_all_rows(task), self._way(), most, self.n_jobs, progress)
        if self.search is not None:
            judged += nelder_mead(best_to_search(judged), task, most, progress)
        return judged

    def _keep_search(self, judged: list[Judged], best: Judged, one: bool) -> None:
        search = over_candidates(judged, best)
        self.gamma_ = float(search.gamma[0]) if one else search.gamma
        self.criterion_ = float(search.criterion[0]) if one else search.criterion
        self.criterion_lower_bound_ = float(search.lower_bound[0]) if one else search.lower_bound
        self.gamma_range_ = np.array(search.gamma_range)
        if best.widths is not None:
            self.sigma_range_ = np.array(best.widths.widths)
        self.path_ = search.path
        self.cv_results_ = tabulated(judged, one)

    def _fitted_best(
        self, X: Any, Y: Array, judged: list[Judged], task: Task, whole: bool = True
    ) -> tuple[list[Judged], Judged, SaddleFit]:
        """The winner of a search, fitted.

        Where rounding hides the machine at the default end of a range, and a smaller gamma is not worse by more than a
        proof may cost (:mod:`substrate.search.range_end`), the range ends there.
        """
        top = winner(judged)
        best = look_further(top, task)
        judged = [best if candidate is top else candidate for candidate in judged]
        fit = self._final_fit(X, Y, judged, best, task.weights, whole)
        found = (judged, best, fit)
        while self.gamma_range is None and not _is_known(found[2]):
            kernel, (low, top) = found[1].kernel, (found[1].search.gamma_range[0], 0.1 * found[1].search.gamma.max())
            if not low < top:
                break
            shorter = judge(kernel, replace(task, gammas=(low, float(top))))
            if not is_affordable(shorter.search.values, best.search.values, task.gap, best.search.floor, HIGHEST_PRICE):
                break  # too high a cost for a certificate
            beyond = best.search.beyond
            seen = None if beyond is None else np.minimum(beyond, best.search.values)
            search = replace(shorter.search, ended=True, beyond=seen)
            shorter = replace(shorter, search=search, widths=found[1].widths)
            others = [shorter if candidate is found[1] else candidate for candidate in found[0]]
            found = (others, shorter, self._final_fit(X, Y, others, shorter, task.weights, whole))
        return found if _is_known(found[2]) else (judged, best, fit)

    def _final_fit(
        self, X: Any, Y: Array, judged: list[Judged], best: Judged, given: Array | None, whole: bool
    ) -> SaddleFit:
        """The chosen machine on all rows (``whole``: in every column of Y), with the rows of the search."""
        gammas = tuple(float(gamma) for gamma in np.broadcast_to(best.search.gamma, Y.shape[1]))
        gram = gram_kind(X).of(best.kernel, X)
        weights = on_device_of(X, np.ones(X.shape[0])) if given is None else given
        method = Method.closed_form(self._tolerance())  # type: ignore[attr-defined]
        if whole:
            border = self._border(X, weights)  # type: ignore[attr-defined]
            fit = fit_saddle(best.kernel, X, Y, gammas, weights, method, gram=gram, primal=True, border=border)
            searched = _centred_gram(gram, best.kernel, X)
            extra = (_refitted_row(searched, Y, fit, best, weights),) if self._criterion == "loo" else ()
        else:
            fit = self._fit_codes(best.kernel, X, Y, gammas[0], weights, method)  # type: ignore[attr-defined]
            extra = ()
        rows, facts = self._search_rows(judged, best)
        return replace(fit, rows=(*fit.rows, *extra, *rows), facts=(*fit.facts, *facts))

    def _search_rows(self, judged: list[Judged], best: Judged) -> tuple[tuple[Row, ...], tuple[tuple[str, str], ...]]:
        """The gap of the winner, over all candidates, and the facts of the search."""
        search, proof = over_candidates(judged, best), best.widths.facts(best.kernel) if best.widths else ()
        rows = search.rows()
        kernels = kernels_fact(judged, bool(self.search))
        if best.widths is not None:
            search = best.search
            rows = (*search.rows(), *best.widths.rows(float(best.search.values[0])))
            kernels = f"{len(judged)} judged near the best point of all widths"
        ranges: tuple[tuple[str, str], ...] = ()
        if best.widths is None and len(judged) > 1 and best.search.gamma.size == 1 and search.certified:
            ends = np.array([candidate.search.gamma_range for candidate in judged])
            said = f"from {ends[:, 0].min():.3g} to {ends[:, 0].max():.3g} up to {ends[:, 1].min():.3g} to "
            said += f"{ends[:, 1].max():.3g}, one for each kernel (cv_results_['gamma_range']), the bound over all"
            ranges = (("ranges of gamma", said),)
        if best.price > 1.0:
            kernels += "; terms that are not worth their parameters are set to zero"
        if families.is_families(self.kernels):
            kernels += f"; families {', '.join(dict.fromkeys(families.family_name(one.kernel) for one in judged))}"
        facts = (
            ("criterion", f"{self._criterion}, " + ", ".join(f"{value:.6g}" for value in best.search.criterion)),
            *search.facts(),
            ("decomposition", f"known to {best.error:.1e} at the chosen gamma"),
            *proof,
            ("kernels", kernels),
            *ranges,
            *next((one.facts for one in judged if one.facts), ()),
            ("conditional on", "scaling of the columns and candidate kernels, chosen with all rows"),
        )
        return rows, facts


def _is_known(fit: SaddleFit) -> bool:
    """Whether double precision determines the machine to the tolerance."""
    return all(row.passes for row in fit.rows if isinstance(row, Accuracy))


def _centred_gram(gram: Gram, kernel: Kernel, X: Any) -> Gram:
    """The kernel matrix of the search."""
    (points,) = centred_points(kernel, X)
    return gram if points is X else gram_kind(points).of(kernel, points)


def _refitted_row(gram: Gram, Y: Array, fit: SaddleFit, best: Judged, weights: Array) -> Row:
    """The root of the leave-one-out criterion, first output, from a Cholesky factor instead of a spectrum."""
    ridge = ridge_of(float(best.search.gamma[0]), weights)
    diagonal = to_numpy(projected_diagonal(gram, ridge, fit.border))
    Y, support_values = to_numpy(Y), to_numpy(fit.support_values)
    alpha = support_values if best.search.gamma.size == 1 else support_values[:, :1]
    residuals = leave_one_out_residuals(alpha, diagonal)
    unit = target_unit(residuals)
    v = to_numpy(weights)[:, None]
    again = unit * float(np.sqrt(np.mean(v / v.mean() * np.square(residuals / unit))))
    value = best.search.unit * float(np.sqrt(best.search.values[0]))
    # a factor of K + D loses digits by the condition of the system, a spectrum of PKP does not
    condition = float((to_numpy(gram.diagonal) * v[:, 0]).sum()) * float(best.search.gamma[0])
    tolerance = 1e-9 + 10.0 * best.error + min(relative_rounding(10.0) * condition, 1e-6)
    # where the residuals vanish, the rest is the rounding of y
    floor = 10.0 * roundoff(gram.n, 1.0) / tolerance * float(np.abs(Y).max())
    scale = max(value, again) + floor
    return Row("criterion refitted", value - again, scale, tolerance, "root, by spectrum - by Cholesky factor")
