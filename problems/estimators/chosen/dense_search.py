"""The search of machines on all rows: kernels are judged by one decomposition each, and the best one is fitted."""

from functools import partial
from typing import Any

import numpy as np

from problems.estimators.chosen import families
from problems.estimators.chosen.block_rule import BLOCKS, check_blocks, describe_blocks
from problems.estimators.chosen.candidates import EvaluatedKernel, evaluate
from problems.estimators.chosen.noise_rule import check_noise, judge_by_noise
from problems.estimators.chosen.over_gamma import OverGamma
from problems.estimators.chosen.simplest_kernel import prefer_simplest
from problems.estimators.chosen.splits import judged_by
from problems.estimators.chosen.tasks import Task
from problems.estimators.full.saddle_fit import Method, SaddleFit, fit_saddle
from substrate.arrays import Array, on_device_of
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.evidence import OF_SPECTRUM
from substrate.threads import blas_threads

__all__ = ["DenseSearch"]


class DenseSearch(OverGamma):
    """A search on all rows in memory: one decomposition for every kernel, and the machine of the best one."""

    @property
    def criterion(self) -> str:
        """The criterion, as for every search of gamma; "blocks", of rows that are left out together, in groups or with
        their neighbours; or "noise", by which gamma is the root of an equation.
        """
        words = (*OF_SPECTRUM, *BLOCKS, "noise") if hasattr(self.estimator, "noise") else (*OF_SPECTRUM, *BLOCKS)
        judged = judged_by(self.estimator.cv, words)
        return "blocks" if judged in BLOCKS else judged

    def check_rules(self) -> None:
        """Refuse parameters before any work."""
        super().check_rules()
        check_noise(self.estimator)
        check_blocks(self.estimator)

    def describe(self, fit: SaddleFit, task: Task) -> SaddleFit:
        """Return the fit with the method of validation among its facts."""
        how = {"loo": "every row left out in turn", "folds": f"{len(task.splits)} folds"}.get(task.criterion, "")
        how = describe_blocks(self.estimator, task.blocks) if task.blocks is not None else how
        return fit._replace(facts=(*fit.facts, ("validated on", how))) if how else fit

    def search(self, kernels: list[Kernel], task: Task) -> list[EvaluatedKernel]:
        """Judge the candidates, and go on from the best of them as ``search`` says."""
        model = self.estimator
        if task.criterion == "noise":
            return [judge_by_noise(model, kernels[0], task)]
        with blas_threads(int(task.Y.shape[0])):
            judged = self.search_kernels(kernels, partial(evaluate, task=task), task, model.n_jobs)
            return prefer_simplest(judged, task) if families.is_families(model.kernels) else judged

    def fit_final(
        self,
        X: Any,
        Y: Array,
        judged: list[EvaluatedKernel],
        best: EvaluatedKernel,
        given: Array | None,
    ) -> SaddleFit:
        """Fit the chosen machine on all rows, with the rows of the search."""
        model = self.estimator
        gammas = tuple(float(gamma) for gamma in np.broadcast_to(best.search.gamma, Y.shape[1]))
        gram = Gram.of(best.kernel, X)
        weights = on_device_of(X, np.ones(X.shape[0])) if given is None else given
        method = Method.closed_form(model._tolerance())
        border = model._model.border(X, weights)
        fit = fit_saddle(best.kernel, X, Y, gammas, weights, method, gram=gram, border=border)
        rows, facts = self.search_rows(judged, best)
        return fit._replace(rows=(*fit.rows, *rows), facts=(*fit.facts, *facts))
