"""Searches over gamma, and over kernels or the logarithms of their parameters: rules, table, rows of a certificate."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from problems.estimators.chosen import families
from problems.estimators.chosen.candidates import EvaluatedKernel, over_candidates, tabulate
from problems.estimators.chosen.kernel_search import (
    MOST_KERNELS,
    Judge,
    Widths,
    check_slopes,
    check_widths,
    judge_each,
    search_by_slopes,
)
from problems.estimators.chosen.splits import judged_by, refuse_device, splits_of
from problems.estimators.chosen.tasks import Task
from problems.estimators.shared.checks import warn_if_unscaled
from substrate.arrays import is_sparse, positive, whole_number
from substrate.certificates import Row
from substrate.errors import DeclarationError
from substrate.kernels import Kernel
from substrate.least_squares.evidence import OF_SPECTRUM
from substrate.least_squares.leave_one_out import Split
from substrate.progress import Progress
from substrate.search.gamma_search import gamma_ends

__all__ = ["RECOMMENDED", "OverGamma"]


def _recommended(cls: Any, /, **changes: Any) -> Any:
    """The estimator that ``substrate fit`` uses, with ``changes``: families of kernels, refined where it can."""
    own = {one.name for one in fields(cls) if one.init}
    return cls(**({name: value for name, value in families.RECOMMENDED.items() if name in own} | changes))


#: The constructor ``recommended`` of estimators that search.
RECOMMENDED: Any = classmethod(_recommended)


@dataclass(frozen=True, eq=False, repr=False)
class OverGamma:
    """A search over gamma and the scales of kernels: its rules, its fitted attributes, its rows of a certificate."""

    estimator: Any

    @property
    def criterion(self) -> str:
        """The criterion: "loo", "gcv", "evidence", or "folds"."""
        return judged_by(self.estimator.cv, tuple(OF_SPECTRUM))

    def check_rules(self) -> None:
        """Refuse parameters before any work."""
        model = self.estimator
        positive(model.gap, "gap")
        families.check_kernels(model.kernels, model.__sklearn_tags__().input_tags.pairwise)
        if model.gamma_range is not None:
            gamma_ends(model.gamma_range)
        if model.search not in (None, "gradient"):
            raise DeclarationError(f"search must be None or 'gradient', received {model.search!r}")
        check_widths(model.widths, model.search)
        if model.max_evaluations is not None:
            whole_number(model.max_evaluations, "max_evaluations", 1)
        model._model.refuse_search(model.search)

    def way(self) -> Widths | None:
        """Return what a search by slopes may do with a shared width."""
        model = self.estimator
        if model.widths is not None or not families.is_families(model.kernels):
            return model.widths  # type: ignore[no-any-return]
        return "auto" if self.criterion in OF_SPECTRUM else "shared"

    @property
    def gives_widths(self) -> bool:
        """Whether columns of different units get widths of their own."""
        return self.estimator.search == "gradient" and self.way() in ("auto", "each")

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
        """Return the splits of folds, by numbers among the rows ``kept``; none for other criteria."""
        if self.criterion == "blocks":
            refuse_device(X)
        return splits_of(self.estimator, X, y, kept, groups) if self.criterion == "folds" else ()

    def search_kernels(self, kernels: list[Kernel], judge: Judge, task: Task, n_jobs: Any) -> list[EvaluatedKernel]:
        """Return the judged candidates, and, where ``search`` says so, where searches by the slopes of a task end."""
        model = self.estimator
        by_slopes = model.search == "gradient"
        most = MOST_KERNELS if model.max_evaluations is None else int(model.max_evaluations)
        if by_slopes:
            check_slopes(kernels, task.X)
        progress = Progress(len(kernels) + (most if by_slopes else 0), shown=bool(model.verbose))
        try:
            if not by_slopes:
                return judge_each(kernels, judge, n_jobs, progress)
            by_family = families.is_families(model.kernels)
            return search_by_slopes(kernels, task, judge, self.way(), by_family, most, n_jobs, progress)
        finally:
            progress.close()

    def keep_search(self, judged: list[EvaluatedKernel], best: EvaluatedKernel, one: bool) -> None:
        """Set the attributes of a search: what was chosen, its criterion and bound, and the table of all candidates."""
        model = self.estimator
        search = over_candidates(judged, best)
        model.gamma_ = float(search.gamma[0]) if one else search.gamma
        model.criterion_ = float(search.criterion[0]) if one else search.criterion
        unpriced = over_candidates([replace(candidate, price=1.0) for candidate in judged], replace(best, price=1.0))
        bounds = np.minimum(search.lower_bound, unpriced.lower_bound)
        model.criterion_lower_bound_ = float(bounds[0]) if one else bounds
        model.gamma_range_ = np.array(search.gamma_range)
        model.path_ = search.path
        model.cv_results_ = tabulate(judged, one)

    def search_rows(
        self, judged: list[EvaluatedKernel], best: EvaluatedKernel
    ) -> tuple[tuple[Row, ...], tuple[tuple[str, str], ...]]:
        """Return the gap of the winner, over all candidates, and the facts of the search."""
        search = over_candidates(judged, best)
        tried = sum(one.tried for one in judged)
        kernels = f"{len(judged)} evaluated" + (f", {tried} more tried on the way" if tried else "")
        kernels += "; the search among them is local" if self.estimator.search else ""
        ranges: tuple[tuple[str, str], ...] = ()
        if len(judged) > 1 and best.search.gamma.size == 1 and search.is_certified:
            ends = np.array([candidate.search.gamma_range for candidate in judged])
            said = f"from {ends[:, 0].min():.3g} to {ends[:, 0].max():.3g} up to {ends[:, 1].min():.3g} to "
            said += f"{ends[:, 1].max():.3g}, one for each kernel (cv_results_['gamma_range']), the bound over all"
            ranges = (("ranges of gamma", said),)
        if families.is_families(self.estimator.kernels):
            kernels += f"; families {', '.join(dict.fromkeys(families.family_name(one.kernel) for one in judged))}"
        known = (("decomposition", f"known to {best.error:.1e} at the chosen gamma"),)
        facts = (
            ("criterion", f"{self.criterion}, " + ", ".join(f"{value:.6g}" for value in best.search.criterion)),
            *search.facts(),
            *(known if self.criterion != "noise" else ()),  # the root is enclosed by machines, not by a spectrum
            ("kernels", kernels),
            *ranges,
            *next((one.facts for one in judged if one.facts), ()),
            ("conditional on", "preparation of the columns and candidate kernels, chosen with all rows"),
        )
        return search.rows(), facts
