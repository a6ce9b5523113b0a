"""The base of machines that choose: the rules of a search, over kernels or over the logarithms of their parameters, the
search, its table, and its rows of a certificate."""

from dataclasses import dataclass, fields, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from problems.estimators.chosen import families
from problems.estimators.chosen.candidates import (
    EvaluatedKernel,
    held_out_rows,
    judged_by,
    over_candidates,
    tabulate,
    trainable_splits,
)
from problems.estimators.chosen.certified_search import check_certified
from problems.estimators.chosen.kernel_search import kernels_fact
from problems.estimators.chosen.tasks import Task
from problems.estimators.chosen.width_rule import Widths, check_widths
from problems.estimators.full.saddle_fit import SaddleFit
from problems.estimators.shared.checks import warn_if_unscaled
from problems.estimators.shared.selector import Selector
from substrate.arrays import is_sparse, positive, whole_number
from substrate.certificates import Row
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Kernel
from substrate.least_squares.leave_one_out import ROBUST
from substrate.namespaces import is_device_array
from substrate.search.gamma_search import gamma_ends

__all__ = ["RECOMMENDED", "RowSplit", "Search"]

_NUMPY = "folds and validation rows are numpy arrays (X.cpu().numpy(), X.get()); on a device use cv='loo' or cv='gcv'"


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

    def describe(self, fit: SaddleFit, task: Task) -> SaddleFit:
        """Return the fit with the method of validation among its facts."""
        how = {"loo": "every row left out in turn", "folds": f"{len(task.splits)} folds"}.get(task.criterion, self.how)
        return replace(fit, facts=(*fit.facts, ("validated on", how))) if how else fit


def _recommended(cls: Any, /, **changes: Any) -> Any:
    """Return the estimator that ``substrate fit`` uses, with ``changes``: families of kernels, refined where it can."""
    own = {one.name for one in fields(cls) if one.init}
    return cls(**({name: value for name, value in families.RECOMMENDED.items() if name in own} | changes))


#: The constructor ``recommended`` of estimators that search.
RECOMMENDED: Any = classmethod(_recommended)


class Search(Selector):
    """The rules of a search over gamma and kernels, checked; the search; and its fitted attributes.

    Its rules are parameters of the estimator: ``kernels``, ``cv``, ``loss``, ``gamma_range`` and those beside them.
    """

    @property
    def losses(self) -> tuple[str, ...]:
        """The supported losses of leave-one-out residuals."""
        return ("squared", *ROBUST, "misclassification") if self.estimator._labels else ("squared", *ROBUST)

    @property
    def criterion(self) -> str:
        """The criterion: "loo", "gcv", "evidence", "folds", "validation", or a loss of leave-one-out residuals."""
        return judged_by(self.estimator.cv, self.estimator.loss, self.losses)

    def check_rules(self) -> None:
        """Refuse parameters before any work."""
        model = self.estimator
        if self.criterion == "validation":
            held_out_rows(4, model.validation_fraction, 0)
        positive(model.gap, "gap")
        if model.gamma_range is not None:
            gamma_ends(model.gamma_range)
        if model.search not in (None, "nelder-mead", "gradient", "certified"):
            raise DeclarationError(
                f"search must be None, 'nelder-mead', 'gradient' or 'certified', received {model.search!r}"
            )
        check_widths(model.widths, model.search)
        if model.max_evaluations is not None:
            whole_number(model.max_evaluations, "max_evaluations", 1)
        check_certified(model.search, self.criterion, model.sigma_range, model.width_gap)
        families.check_kernels(model.kernels, model.__sklearn_tags__().input_tags.pairwise)

    def candidates(self, X: Any) -> list[Kernel]:
        """Return the kernels to judge, their widths as numbers, each once."""
        model = self.estimator
        if model.kernels is None:
            return [model._resolved_kernel(X)]
        if families.is_families(model.kernels) and not is_sparse(X):
            warn_if_unscaled(model, X, tuple(range(X.shape[1])), RBF())
        given = families.list_unresolved(model.kernels)
        return families.at_all_widths(model.kernels, (kernel.resolved(X) for kernel in given))

    def way(self) -> Widths | None:
        """Return what a search by slopes may do with a shared width."""
        model = self.estimator
        return "auto" if model.widths is None and families.is_families(model.kernels) else model.widths

    def splits(self, X: Any, y: Any, classifier: bool, kept: Any = None) -> Any:
        """Return the splits of ``cv``, by numbers among the rows ``kept`` of those given (None: all of them).

        A splitter, or a list of splits, names the rows that were given to fit; a number of folds names none, and
        divides the rows that are kept.
        """
        if self.criterion != "folds":
            return ()
        if is_device_array(X):
            raise DeclarationError(_NUMPY)
        if kept is not None and isinstance(self.estimator.cv, Integral):
            X, y, kept = X[kept], y[kept], None
        splitter = check_cv(self.estimator.cv, y, classifier=classifier)
        return trainable_splits(splitter.split(X, y), X.shape[0], y if classifier else None, kept)

    def part_rows(self, X: Any, y: Any, X_val: Any, y_val: Any, labels: bool) -> RowSplit:
        """Return the rows of the final machine, and validation rows if used: given, or a share of X."""
        model = self.estimator
        rows = np.arange(X.shape[0])
        if self.criterion != "validation":
            if X_val is not None or y_val is not None:
                raise DataError(f"X_val and y_val are used only with cv=None, received cv={model.cv!r}")
            return RowSplit(rows, X, y)
        if is_device_array(X):
            raise DeclarationError(_NUMPY)
        if (X_val is None) != (y_val is None):
            raise DataError("X_val and y_val come together; one of them is missing")
        if X_val is not None:
            X_val, y_val = model._validation(X_val, y_val, numeric=not labels, outputs=y.shape[1:])
            return RowSplit(rows=rows, X=X, y=y, X_check=X_val, y_check=y_val, how=f"{y_val.shape[0]} rows given")
        cut = held_out_rows(rows.size, model.validation_fraction, model.random_state, y if labels else None)
        ((train, test),) = trainable_splits([cut], rows.size, y if labels else None)
        X_train, X_check = X[train], X[test]
        if model.__sklearn_tags__().input_tags.pairwise:
            model._resolved_kernel(X)  # refuses a matrix that is not square
            X_train, X_check = X_train[:, train], X_check[:, train]
        return RowSplit(
            rows=train,
            X=X_train,
            y=y[train],
            X_check=X_check,
            y_check=y[test],
            how=f"{test.size} of {rows.size} rows held out",
            held_out=test,
        )

    def keep_search(self, judged: list[EvaluatedKernel], best: EvaluatedKernel, one: bool) -> None:
        """Set the attributes of a search: what was chosen, its criterion and bound, and the table of all candidates."""
        model = self.estimator
        search = over_candidates(judged, best)
        model.gamma_ = float(search.gamma[0]) if one else search.gamma
        model.criterion_ = float(search.criterion[0]) if one else search.criterion
        model.criterion_lower_bound_ = float(search.lower_bound[0]) if one else search.lower_bound
        model.gamma_range_ = np.array(search.gamma_range)
        if best.widths is not None:
            model.sigma_range_ = np.array(best.widths.widths)
        model.path_ = search.path
        model.cv_results_ = tabulate(judged, one)

    def search_rows(
        self, judged: list[EvaluatedKernel], best: EvaluatedKernel
    ) -> tuple[tuple[Row, ...], tuple[tuple[str, str], ...]]:
        """Return the gap of the winner, over all candidates, and the facts of the search."""
        search, proof = over_candidates(judged, best), best.widths.facts(best.kernel) if best.widths else ()
        rows = search.rows()
        kernels = kernels_fact(judged, bool(self.estimator.search))
        if best.widths is not None:
            search = best.search
            rows = (*search.rows(), *best.widths.rows(float(best.search.values[0])))
            kernels = f"{len(judged)} evaluated near the best point of all widths"
        ranges: tuple[tuple[str, str], ...] = ()
        if best.widths is None and len(judged) > 1 and best.search.gamma.size == 1 and search.is_certified:
            ends = np.array([candidate.search.gamma_range for candidate in judged])
            said = f"from {ends[:, 0].min():.3g} to {ends[:, 0].max():.3g} up to {ends[:, 1].min():.3g} to "
            said += f"{ends[:, 1].max():.3g}, one for each kernel (cv_results_['gamma_range']), the bound over all"
            ranges = (("ranges of gamma", said),)
        if best.price > 1.0:
            kernels += "; terms that are not worth their parameters are set to zero"
        if families.is_families(self.estimator.kernels):
            kernels += f"; families {', '.join(dict.fromkeys(families.family_name(one.kernel) for one in judged))}"
        facts = (
            ("criterion", f"{self.criterion}, " + ", ".join(f"{value:.6g}" for value in best.search.criterion)),
            *search.facts(),
            ("decomposition", f"known to {best.error:.1e} at the chosen gamma"),
            *proof,
            ("kernels", kernels),
            *ranges,
            *next((one.facts for one in judged if one.facts), ()),
            ("conditional on", "scaling of the columns and candidate kernels, chosen with all rows"),
        )
        return rows, facts
