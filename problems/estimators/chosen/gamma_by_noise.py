r"""The choice of gamma by a known noise: ``cv="noise"``, Morozov's discrepancy principle.

.. math:: \frac{\sum_i v_i e_i(\gamma)^2}{\sum_i v_i} = \varsigma^2

Nothing is left out and nothing is compared: the errors of training have the size that the noise explains. The equation
has one root on the spectrum (:mod:`substrate.search.secular_equation`), between two gammas that are proved to enclose
it. A kernel is not chosen by it, since the norms of w, which Morozov's problem compares, have units of the kernel.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from problems.estimators.chosen.judgement import EvaluatedKernel, Task
from problems.estimators.full.ls_svm import LSSVMRegressor
from problems.estimators.full.required_gamma import gamma_for
from substrate.arrays import positive, to_numpy
from substrate.certificates import Accuracy, Row
from substrate.kernels import Kernel
from substrate.search.gamma_result import GammaSearch

__all__ = ["judge_by_noise"]


@dataclass(frozen=True, slots=True)
class GammaOfNoise(GammaSearch):
    """The gammas at which machines have a given noise, and the row that bounds their distance from the exact roots."""

    row: Row | None = None
    reachable: Any = None

    def rows(self) -> tuple[Row, ...]:
        """Return the row that bounds the distance of the fitted values from the machine at the exact root."""
        return () if self.row is None else (self.row,)

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return the bracket of the root, and the range of noises that can be reached."""
        low, high = self.gamma_range
        ends = ", ".join(f"{least:.6g} to {most:.6g}" for least, most in np.reshape(self.reachable, (-1, 2)))
        return (("root of gamma", f"between {low:.15g} and {high:.15g}"), ("noise of some gamma", ends))


def judge_by_noise(model: Any, kernel: Kernel, task: Task) -> EvaluatedKernel:
    """Return the kernel with the gamma of every output at which its errors have the noise of the model."""
    noise, outputs = positive(model.noise, "noise"), int(task.Y.shape[1])
    y = task.Y[:, 0] if outputs == 1 else task.Y
    plain = LSSVMRegressor("precomputed" if kernel.pairwise else kernel, tol=model.tol)
    required = gamma_for(plain, task.X, y, task.unit * task.row_weights, noise=noise)
    answer = required.certificate.rows[0]
    if not isinstance(answer, Accuracy):
        raise TypeError("internal error: a required gamma states its accuracy first")
    gammas, ends = np.atleast_1d(required.gamma), np.reshape(required.gamma_range, (-1, 2))
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
