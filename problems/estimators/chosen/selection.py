r"""LS-SVMs that choose their gamma, with a proof, and their kernel.

.. math:: \min_{k} \; \min_{\gamma_0 \le \gamma \le \gamma_1} F(k, \gamma)

One eigendecomposition per kernel suffices for every gamma, and the inner minimum is global: its lower bound over the
range is on the certificate (:mod:`substrate.select.gamma_search`). The outer one is over a list, and then global too,
or a search in the logarithms of the kernel's scales, by slopes, and then local
(:mod:`problems.estimators.chosen.kernel_search`). The machine is fitted to all rows at the end. This is also the fusion
of training and validation of [Pelckmans2005]_ eq. (17)-(19), see :mod:`problems.tikhonov_fusion`.

**Gamma by a known noise,** ``cv="noise"``, is Morozov's discrepancy principle,

.. math:: \frac{\sum_i v_i e_i(\gamma)^2}{\sum_i v_i} = \varsigma^2

Nothing is left out and nothing is compared: the errors of training have the size that the noise explains. The equation
has one root on the spectrum (:mod:`substrate.select.secular_equation`), between two gammas that are proved to enclose
it. A kernel is not chosen by it, since the norms of w, which Morozov's problem compares, have units of the kernel.

**Plain folds** judge machines without closed forms, of a shape that holds everywhere or with robust weights,

.. math:: \min_{\gamma \in G} \; \frac{1}{\sum v} \sum_{\text{folds}} \sum_{i \text{ left out}}
          v_i \, \ell(y_i - f_\gamma(x_i)) ,

:math:`f_\gamma` the machine of the other rows, with its shape in their box or with robust weights, and G a grid; the
loss is the square, and of a robust machine the absolute value, since squares in the folds would let outliers choose
gamma ([DeBrabanter2009]_). Nothing is proved of other values of gamma.
"""

import time
import warnings
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from problems.estimators.chosen.basis_selection import check_basis, folds_of_rows, judge_on_basis, sample_rows
from problems.estimators.chosen.input_ranking import rank_inputs
from problems.estimators.chosen.judgement import (
    EvaluatedKernel,
    JudgedKernels,
    Task,
    judge_each,
    prefer_simplest,
)
from problems.estimators.chosen.kernel_search import check_slopes, search_by_slopes
from problems.estimators.chosen.rules import (
    RECOMMENDED,
    Widths,
    at_all_widths,
    blocks_of,
    check_folds,
    check_groups,
    check_rules,
    criterion_of,
    family_name,
    is_families,
    list_unresolved,
    splits_of,
    widths_of,
)
from problems.estimators.full.ls_svm import LSSVM, LSSVMClassifier, LSSVMRegressor
from problems.estimators.full.required_gamma import find_gammas
from problems.estimators.full.saddle_machine import ChosenKernel
from problems.estimators.reduced_fit import CONDITIONAL
from problems.estimators.reduced_ls_svm import fit_at
from problems.estimators.shared.base import Facts, Uses, WeightedRows
from problems.estimators.shared.checks import warn_if_unscaled
from problems.estimators.shared.classifier import take_block
from problems.estimators.shared.left_out import has_closed_forms, has_shape
from substrate.arrays import Array, ascending_pair, blas_threads, is_sparse, on_device_of, positive, to_numpy
from substrate.certificate import Accuracy, Row
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Kernel
from substrate.progress import Progress
from substrate.select.gamma_search import GAP, GammaSearch

__all__ = ["GammaChoice", "LSSVMClassifierCV", "LSSVMRegressorCV", "recommended"]

#: Most kernels that a search tries, unless another number is given.
MOST_KERNELS = 96
#: How many of the best kernels of a search by some of the rows are judged on all of them.
_BEST = 2
#: The values of gamma times the mean weight that are considered unless others are given, and how many for each decade.
_GRID, _PER_DECADE = (1e-2, 1e4), 2
#: How many larger values are tried after the best one: machines of large gamma take the most time.
_BEYOND = 3


@classmethod  # type: ignore[misc]
def recommended(cls: Any, /, **changes: Any) -> Any:
    """Return the estimator that ``substrate fit`` uses, with ``changes``: families of kernels, refined where
    possible."""
    parameters = {entry.name for entry in fields(cls) if entry.init}
    return cls(**({name: value for name, value in RECOMMENDED.items() if name in parameters} | changes))


@dataclass(eq=False, repr=False)
class GammaChoice(LSSVM):
    """The choice of gamma on all rows, of an LS-SVM of numbers or of classes: its parameters, and the fit.

    It comes before the estimator whose gamma is chosen; :class:`LSSVMRegressorCV` documents the parameters.
    """

    _page: ClassVar[str] = "tikhonov_fusion"
    _chooses: ClassVar[str | None] = "gamma"
    # what a search chooses or does not use is no parameter of its machine
    gamma: Any = field(default=None, init=False)
    c: Any = field(default=None, init=False)
    _: KW_ONLY
    kernels: Any = None
    cv: Any = "loo"
    random_state: Any = None
    gamma_range: Any = None
    gap: float = GAP
    search: str | None = None
    max_evaluations: int | None = None
    time_limit: float | None = None
    widths: Widths | None = None
    n_jobs: int | None = None
    verbose: int = 0
    reach: int | None = None

    recommended = recommended

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Choose, then fit to all rows.

        ``sample_weight`` weighs the errors, in every fit and in the criterion. ``groups`` has one label per row: rows
        of a group are left out together with ``cv="groups"``, a number of folds or a splitter of scikit-learn, and are
        a separate series with ``cv="blocks"``.

        :place [Cawley2004]_ section 3: model selection by leave-one-out, over scales and gamma
        """
        self._begin_fit()
        self._model.refuse_combinations()
        check_rules(self)
        if self.basis is not None:
            if groups is not None:
                raise DeclarationError("groups is of a search on all rows; leave basis=None, or leave groups out")
            self._choose_on_basis(X, y, sample_weight)
            return self
        machine, closed = self._model, has_closed_forms(self)
        if not closed:
            check_folds(self, groups)
        given, rows, coded, Y = machine.read(X, y, sample_weight)
        if closed:
            judged, facts = self._choose_on_all_rows(given, rows, Y, groups)
        else:
            judged, facts = judge_by_folds(self, LSSVMRegressor, given, rows, Y)
        gammas = tuple(float(gamma) for gamma in np.broadcast_to(judged.best.search.gamma, Y.shape[1]))
        machine.fit_rows(rows, coded, Y, ChosenKernel(judged.best.kernel, gammas, (judged.overall.rows(), facts)))
        self._keep_search(judged, bool(self._labels) or Y.shape[1] == 1)
        return self

    def _choose_on_all_rows(
        self, given: tuple[Any, Any], rows: WeightedRows, Y: Array, groups: Any
    ) -> tuple[JudgedKernels, Facts]:
        """Judge kernels by one decomposition each; return them, and facts about the choice."""
        X, weights, kept = rows.X, rows.weights, rows.numbers
        pooled, criterion, unit = bool(self._labels), criterion_of(self), float(weights.mean())
        groups = check_groups(self, groups, rows.n_given)
        kernels = self._candidates(X)
        splits = splits_of(self, *given, kept, groups) if criterion == "folds" else ()
        blocks, validated = blocks_of(self, X, None if groups is None else groups[kept])
        task = Task(
            X=X,
            Y=on_device_of(X, Y),
            criterion=criterion,
            splits=splits,
            gammas=None if self.gamma_range is None else (unit * self.gamma_range[0], unit * self.gamma_range[1]),
            gap=float(self.gap),
            pooled=pooled,
            weights=None if (weights == 1.0).all() else weights / unit,
            unit=unit,
            border=self._border(X, weights),
            blocks=blocks,
        )
        with blas_threads(int(Y.shape[0])):
            if criterion == "noise":
                kernel_of_noise = judge_by_noise(self, kernels[0], task)
                judged = JudgedKernels([kernel_of_noise], kernel_of_noise)
            else:
                judged = search_kernels(self, kernels, task)
            if is_families(self.kernels):
                best, facts = prefer_simplest(judged.judged, task)
                judged = judged._replace(best=best, facts=(*facts, *judged.facts))
        validated = {"loo": "every row left out in turn", "folds": f"{len(splits)} folds"}.get(criterion, validated)
        conditional = "preparation of the columns and candidate kernels, chosen with all rows"
        facts = self._search_facts(judged, conditional)
        return judged, (*facts, ("validated on", validated)) if validated else facts

    def _choose_on_basis(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Choose basis and gamma, then fit to all rows, wherever they are, and to numbers or labels of any kind.

        Every kernel takes one statistic of all rows; a search by slopes is of some of the rows, and its best kernels
        are judged by all of them.
        """
        check_basis(self)
        machine, start = self._model, time.monotonic()
        data = machine.read(X, y, sample_weight)
        folds = folds_of_rows(self, data, X, y) if criterion_of(self) == "folds" else None
        if is_families(self.kernels):
            machine.data_kernel(data, self._own_kernel(RBF()))  # warns of columns on different scales
        if self.kernels is None:
            kernels = [machine.data_kernel(data)]
        else:
            rows, given = data.width_rows(), list_unresolved(self.kernels)
            kernels = at_all_widths(self.kernels, (self._own_kernel(kernel).resolved(rows) for kernel in given))
        few, searched = JudgedKernels((), None), ""
        if self.search == "gradient":
            sample = sample_rows(self, data, folds)
            few = search_kernels(self, kernels, sample)
            kernels = [
                candidate.kernel for candidate in sorted(few.judged, key=lambda candidate: candidate.score)[:_BEST]
            ]
            searched = f", by {sample.Y.shape[0]} of {data.source.n_rows} rows"
        best, judged = judge_on_basis(self, kernels[0], data, folds), list[EvaluatedKernel]()
        judged.append(best.judged)
        for kernel in kernels[1:]:
            if self.time_limit is not None and time.monotonic() > start + self.time_limit:
                break
            other = judge_on_basis(self, kernel, data, folds)
            judged.append(other.judged)
            best = other if other.judged.score < best.judged.score else best  # nothing is kept of the others
        chosen = few._replace(judged=judged, best=best.judged, tried=few.tried + len(few.judged))
        unit = best.prepared.data.unit
        fit = fit_at(best.prepared, unit * float(best.judged.search.gamma[0]), self._tolerance(), best.spectrum)
        more = self._search_facts(chosen, f"{CONDITIONAL}, chosen with the left-out row included", searched)
        self._keep_search(chosen, True)
        rows = (*fit.rows, *chosen.overall.rows())
        machine.keep(replace(fit, factor=fit.factor.in_unit(unit), rows=rows, facts=(*fit.facts, *more)))

    def _candidates(self, X: Any) -> list[Kernel]:
        """Return the kernels to judge, built from the given ones as the model builds its own, with widths as
        numbers."""
        if self.kernels is None:
            return [self._resolved_kernel(X)]
        kernels = [self._own_kernel(kernel) for kernel in list_unresolved(self.kernels)]
        gives_widths = self.search == "gradient" and widths_of(self) in ("auto", "each")
        if not is_sparse(X) and not gives_widths:  # columns of different units get separate widths
            n = int(X.shape[1])
            compared = {columns: kernel for kernel in reversed(kernels) for columns in kernel.compared_columns(n)}
            for columns, kernel in compared.items():
                warn_if_unscaled(self, X, columns, kernel)
        return at_all_widths(self.kernels, (kernel.resolved(X) for kernel in kernels))

    def _keep_search(self, judged: JudgedKernels, is_single: bool) -> None:
        """Set the attributes of a search: what was chosen, its criterion and bound, and the table of all candidates."""
        search, bounds = judged.best.search, judged.overall.lower_bound
        self.gamma_ = float(search.gamma[0]) if is_single else search.gamma
        self.criterion_ = float(search.criterion[0]) if is_single else search.criterion
        self.criterion_lower_bound_ = float(bounds[0]) if is_single else bounds
        self.gamma_range_ = np.array(search.gamma_range)
        self.path_ = search.path
        self.cv_results_ = judged.table(is_single)

    def _search_facts(self, candidates: JudgedKernels, conditional: str, searched: str = "") -> Facts:
        """Return the facts of a search for a certificate: on what it is ``conditional``, and what was ``searched``."""
        judged, best, criterion = candidates.judged, candidates.best, criterion_of(self)
        kernels = f"{len(judged)} evaluated" + (
            f", {candidates.tried} more tried on the way" if candidates.tried else ""
        )
        kernels += f"; the search among them is local{searched}" if self.search else ""
        if is_families(self.kernels):
            kernels += f"; families {', '.join(dict.fromkeys(family_name(entry.kernel) for entry in judged))}"
        facts = [("criterion", f"{criterion}, " + ", ".join(f"{value:.6g}" for value in best.search.criterion))]
        facts += (*best.search.facts(), *candidates.overall.advice())
        if criterion != "noise":  # the root is enclosed by machines, not by a spectrum
            facts.append(("decomposition", f"known to {best.error:.1e} at the chosen gamma"))
        facts.append(("kernels", kernels))
        if len(judged) > 1 and candidates.is_single and best.search.is_certified:
            ends = np.array([candidate.search.gamma_range for candidate in judged])
            said = f"from {ends[:, 0].min():.3g} to {ends[:, 0].max():.3g} up to {ends[:, 1].min():.3g} to "
            said += f"{ends[:, 1].max():.3g}, one for each kernel (cv_results_['gamma_range']), the bound over all"
            facts.append(("ranges of gamma", said))
        return (*facts, *candidates.facts, ("conditional on", conditional))

    def _gammas(self, n_outputs: int) -> tuple[float, ...]:
        outputs = (*self._outputs(), 1)[0]
        if outputs != n_outputs:
            raise DataError(f"the model was fitted to {outputs} outputs, these data have {n_outputs}")
        return tuple(float(gamma) for gamma in np.broadcast_to(self.gamma_, n_outputs))


@dataclass(eq=False, repr=False)
class LSSVMRegressorCV(GammaChoice, LSSVMRegressor):
    """An LS-SVM for regression that chooses gamma, provably the best of a range, and its kernel.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel, as for :class:`LSSVMRegressor`; not used if ``kernels`` are given.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.
    solver, max_iter
        As for :class:`LSSVMRegressor`, of the fit to all rows; a search decomposes its matrices.
    basis
        As for :class:`LSSVMRegressor`; every kernel has its own basis. ``search`` then uses at most 800 of the rows,
        and the best two of its kernels are judged by all of them.
    linear_columns
        As for :class:`LSSVMRegressor`; kernels see the other columns, and ``search`` is None. They must not depend on
        each other on the training rows of any fold.
    robust, monotone, convex, bounds
        Robust weights or shapes, as for :class:`LSSVMRegressor`. Gamma is then chosen by folds of machines that have
        them, of one kernel, among two values per decade, from 1e-2 to 1e4 over the mean weight unless ``gamma_range``
        is given, ending three values after the best one; nothing is proved of other values. Machines with robust
        weights are judged by absolute errors. ``cv="loo"``, the default, is a closed form of the plain machine and
        refused: use ``cv=5``.
    kernels : list of kernels or "families", default=None
        Candidates, each judged at its own best gamma. ``"families"`` tries the linear kernel, and RBF, Laplacian and
        Matérn kernels of smoothness 3/2 and 5/2 at 1/4, 1/2, 1, 2 and 4 median distances of the rows, 21 in all; with
        ``search="gradient"`` each at the width where a descent from the median distance ends. Of these, for one output
        and ``cv="loo"``, the one of fewest effective parameters within a standard error of the best is taken.
    cv : {"loo", "blocks", "groups", "gcv", "evidence", "noise"}, int, splitter or iterable, default="loo"
        How a machine is judged. ``"loo"``: every row left out in turn; ``"blocks"``: every row left out with its
        ``reach`` neighbours on both sides, in the order of the rows, for errors that are correlated in time;
        ``"groups"``: every group of :meth:`fit` left out in turn; ``"gcv"``: generalised cross-validation;
        ``"noise"``: by nothing, gamma being the one at which the errors of training have the size of ``noise``
        (Morozov's discrepancy principle, :meth:`LSSVMRegressor.gamma_for`), of one kernel;
        ``"evidence"``: the likelihood of y under the Gaussian process of the machine, as the variance F of
        :mod:`substrate.left_out.criteria`, whose ``log_evidence`` converts it; a number of folds, a splitter or an
        iterable of splits of the rows given to :meth:`fit`: the mean square error over them, without rows of weight
        zero, which a number of folds does not count.
    random_state : int, RandomState or None, default=None
        Seed by which the rows of a number of folds are drawn at random; None: folds in the order of the rows.
    gamma_range : pair of float, default=None
        Lowest and highest gamma; unless given, all that makes a difference to the machine on this kernel matrix, up to
        where rounding of its decomposition reaches ``gap``, or further where the criterion is then better by more than
        a hundredth, or to where it is below 1e-12 of the variance of y. The certificate states the end, and fails where
        the lower bound is not within the gap, or where the criterion is to be expected to fall by more than a tenth
        beyond a default range.
    gap : float, default=1e-4
        Relative distance between criterion and lower bound at which the search of gamma ends.
    search : {None, "gradient"}, default=None
        Whether to go on from the best kernel in the logarithms of its scales (widths, factors, offsets); local.
        ``"gradient"`` uses exact derivatives in all scales and in gamma, from one Cholesky factor for every kernel, and
        judges the kernel it ends with at its own best gamma: the choice for ``RBF("each")``, one width per column,
        best with ``cv="evidence"``. A term of 1e-4 times the squared distance of the logarithms from their start, which
        is no part of ``criterion_``, keeps the width of a column without effect finite. It needs dense arrays of numpy.
    max_evaluations : int, default=None
        Maximum number of kernels that a local search tries, by default 96.
    time_limit : float, default=None
        Seconds after which a search of kernels goes on with the best one that it has; None for no limit.
    widths : {None, "auto", "shared", "each"}, default=None
        Whether ``search="gradient"`` goes on from a kernel with one width for all inputs to one width for each:
        ``"shared"`` never, ``"each"`` always, ``"auto"`` where the errors of rows left out are smaller by more than a
        standard error (of classes: two) plus the gain that choosing the widths explains (the guide on choosing kernels
        has the rule). None: ``"auto"`` with ``kernels="families"`` and a criterion of single rows, and otherwise the
        search keeps to the parameters that a kernel has.
    n_jobs : int, default=None
        Number of kernels judged at a time; the result does not depend on it.
    verbose : int, default=0
        Whether a bar on the terminal shows the progress.
    reach : int, default=None
        With ``cv="blocks"``: the number of neighbours on each side that are left out with a row, as many as share
        their errors with it; zero is leave-one-out. It has to be given.
    noise : float, default=None
        With ``cv="noise"``: the standard deviation of the noise, in the units of y. A value that no gamma reaches is
        refused with those that some gamma has.

    Attributes
    ----------
    gamma_ : float or array of shape (n_outputs,)
        The chosen gamma, one per output.
    criterion_ : float or array of shape (n_outputs,)
        Its criterion; with ``cv="noise"`` the square of the noise.
    gamma_range_ : array of shape (2,)
        Lowest and highest gamma that were searched with the chosen kernel; with ``cv="noise"`` gammas between which the
        root is proved to be.
    criterion_lower_bound_ : float or array of shape (n_outputs,)
        No gamma of ``gamma_range_`` has a smaller criterion with the chosen kernel, nor, for one output, a candidate
        with a gamma in its range (``cv_results_["gamma_range"]``), than this, rounding of the kernel values and of the
        decomposition included; minus infinity for a criterion without a bound.
    reach_ : int
        The number of neighbours left out on each side, with ``cv="blocks"``.
    path_ : dict
        The criterion of the chosen kernel: ``parameter`` ("gamma"), ``values``, every gamma where it
        was evaluated, ascending, the ``criterion`` there, and ``coverage``, the range.
    cv_results_ : dict
        One row per kernel that was judged, at its best gamma: ``params``, ``mean_test_score`` (the negative criterion;
        of several outputs the mean, each in units of its variance), ``rank_test_score``, times, bounds, and
        ``gamma_range``, the lowest and highest gamma over which each bound is.
    kernel_, support_values_, bias_, support_, support_vectors_, ridge_, certificate_, n_iter_
        As for :class:`LSSVMRegressor`; the certificate also has the gap.

    Notes
    -----
    A row of weight v is left out whole, and its squared error counts v times in the criterion. That differs from the
    criterion of v equal rows, where one is left out and the others stay. ``"gcv"`` averages leverages by weight too, so
    that for both a row whose weight tends to zero counts as an absent one; a factor of all weights changes gamma by its
    inverse and no choice. ``"evidence"`` takes weights for inverse variances of the noise, and every row counts.
    """

    _: KW_ONLY
    noise: float | None = None
    _typical: ClassVar[Uses] = ({"cv": 3}, {"cv": "evidence"}, {"cv": "blocks", "reach": 1})
    _title = "LS-SVM regression, gamma selected"

    rank_inputs = rank_inputs


@dataclass(eq=False, repr=False)
class LSSVMClassifierCV(GammaChoice, LSSVMClassifier):
    """An LS-SVM classifier that chooses gamma, provably the best of a range, and its kernel.

    Parameters
    ----------
    kernel, kernels, cv, random_state, gamma_range, gap
        As for :class:`LSSVMRegressorCV`; errors refer to the labels -1 and +1, averaged over the machines.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        As for :class:`LSSVMClassifier`.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        As for :class:`~problems.LSSVMClassifier`.
    solver, max_iter, basis
        As for :class:`LSSVMRegressorCV`.
    linear_columns
        As for :class:`LSSVMRegressorCV`.
    class_weight : dict or "balanced", default=None
        Weights of the classes, multiplied into the weights of the rows, in every fit and in the criterion, which is
        then a weighted mean.
    search, max_evaluations, time_limit, widths, n_jobs, verbose, reach
        As for :class:`LSSVMRegressorCV`.

    Attributes
    ----------
    gamma_, criterion_, criterion_lower_bound_, path_, gamma_range_, reach_, cv_results_
        As for :class:`LSSVMRegressorCV`, one gamma for all machines.
    classes_, code_book_, support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        As for :class:`LSSVMClassifier`.
    """

    _typical: ClassVar[Uses] = ({"cv": 3}, {"cv": "gcv"})
    _title = "LS-SVM classification, gamma selected"

    rank_inputs = rank_inputs


def search_kernels(model: Any, kernels: list[Kernel], task: Task) -> JudgedKernels:
    """Return the judged candidates and, with ``search``, the ends of gradient searches, as far as the time allows."""
    by_slopes = model.search == "gradient"
    deadline = np.inf if model.time_limit is None else time.monotonic() + model.time_limit
    most = MOST_KERNELS if model.max_evaluations is None else int(model.max_evaluations)
    if by_slopes:
        check_slopes(kernels, task.X)
    judged, tried, facts = list[EvaluatedKernel](), 0, Facts()
    with closing(Progress(len(kernels) + (most if by_slopes else 0), shown=bool(model.verbose))) as progress:
        how = deadline, model.n_jobs, progress
        if by_slopes:
            by_family = is_families(model.kernels)
            judged, tried, facts = search_by_slopes(kernels, task, widths_of(model), by_family, most, *how)
        else:
            judged = judge_each(kernels, task, *how)
    return JudgedKernels(judged, min(judged, key=lambda candidate: candidate.score), tried, facts)


@dataclass(frozen=True, slots=True)
class GammaOfNoise(GammaSearch):
    """The gammas at which machines have a given noise, and the row that bounds their distance from the exact roots."""

    row: Row | None = None
    reachable: Any = None

    def rows(self) -> tuple[Row, ...]:
        """Return the row that bounds the distance of the fitted values from the machine at the exact root."""
        return () if self.row is None else (self.row,)

    def facts(self) -> Facts:
        """Return the bracket of the root, and the range of noises that can be reached."""
        low, high = self.gamma_range
        ends = ", ".join(f"{least:.6g} to {most:.6g}" for least, most in self.reachable)
        return (("root of gamma", f"between {low:.15g} and {high:.15g}"), ("noise of some gamma", ends))


def judge_by_noise(model: Any, kernel: Kernel, task: Task) -> EvaluatedKernel:
    """Return the kernel with the gamma of every output at which its errors have the noise of the model."""
    noise, outputs, v = positive(model.noise, "noise"), int(task.Y.shape[1]), task.unit * task.row_weights
    border = task.border.take(np.arange(v.size), v)
    required = find_gammas(kernel, task.X, task.Y, v, border, model._tolerance(), "noise", noise)
    answer = required.certificate.rows[0]
    if not isinstance(answer, Accuracy):
        raise TypeError("internal error: a required gamma states its accuracy first")
    gammas, ends = required.gamma, required.gamma_range
    unit = float(np.abs(to_numpy(task.Y)).max()) or 1.0
    reached = np.full(outputs, (noise / unit) ** 2)
    search = GammaOfNoise(
        gamma=gammas,
        values=reached,
        bounds=reached,
        unit=unit,
        gamma_range=(float(ends[:, 0].min()), float(ends[:, 1].max())),
        gap=float(task.gap),
        evaluations=2 * outputs,
        seen=np.sort(gammas),
        curve=np.tile(reached, (outputs, 1)),
        row=answer.plain("gamma of the noise"),
        reachable=required.reachable,
    )
    return EvaluatedKernel(kernel, search, float(reached.mean()))


def judge_by_folds(
    model: Any, plain_type: type[Any], data: tuple[Any, Any], rows: WeightedRows, Y: Array
) -> tuple[JudgedKernels, Facts]:
    """Judge one kernel, of one output, by plain folds at a grid of gammas; machines of the plain type are fitted."""
    X, v = rows.X, rows.weights
    kernel, shaped, y = model._resolved_kernel(X), has_shape(model), Y[:, 0] if Y.shape[1] == 1 else Y
    folds, columns = splits_of(model, *data, rows.numbers), model._linear_numbers()
    machine = model._machine_with(plain_type, kernel=kernel.kernel if columns else kernel, linear_columns=columns)
    low, high = (end / float(v.mean()) for end in _GRID)
    if model.gamma_range is not None:
        low, high = ascending_pair(model.gamma_range, "the range of gamma")
    gammas, criteria = list[float](), list[float]()
    for gamma in np.geomspace(low, high, int(np.ceil(_PER_DECADE * np.log10(high / low))) + 1):
        errors = [_fold_errors(model, machine.set_params(gamma=float(gamma)), X, y, v, *fold) for fold in folds]
        counted, left_out = np.concatenate([v[test] for _, test in folds]), np.concatenate(errors)
        unit = float(left_out.max()) or 1.0
        power = 2.0 if shaped else 1.0
        gammas.append(float(gamma))
        criteria.append(float(np.average((left_out / unit) ** power, weights=counted)) * unit**power)
        if len(criteria) - 1 - int(np.argmin(criteria)) >= _BEYOND:
            break
    best = int(np.argmin(criteria))
    search = GammaSearch(
        gamma=np.array(gammas[best : best + 1]),
        values=np.array(criteria[best : best + 1]),
        bounds=np.array([-np.inf]),
        unit=1.0,
        gamma_range=(gammas[0], gammas[-1]),
        gap=np.inf,
        evaluations=len(gammas),
        seen=np.array(gammas),
        curve=np.array(criteria)[:, None],
    )
    judged = EvaluatedKernel(kernel, search, criteria[best])
    tried = f"{len(gammas)} values from {gammas[0]:.3g} to {gammas[-1]:.3g}, by {len(folds)} folds"
    facts = (("choice of gamma", f"the best of {tried}; nothing is proved of others"),)
    return JudgedKernels([judged], judged), facts


def _fold_errors(model: Any, machine: Any, X: Any, y: Array, v: Array, train: Any, test: Any) -> Array:
    """Return the sizes of the errors of the machine of some rows at others."""
    of_fold = clone(machine)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit to all rows gives them
        pairwise = model.__sklearn_tags__().input_tags.pairwise
        of_fold.fit(take_block(X, train, train, pairwise), y[train], sample_weight=v[train])
        predicted = of_fold.predict(take_block(X, test, train, pairwise))
    return np.asarray(np.abs(np.ravel(y[test]) - np.ravel(predicted)))
