"""A saddle system that a device solves while the host checks its rows.

Kernel matrix, factor, solution and residual are queued before anything is known of the rows; the targets and the ranges
of the columns are on their way to the host before that. What the checks refuse is refused all the same, before a number
of the solution is read. The work would be lost then, so that it is queued for few rows, for which the host would keep
the device waiting.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.backends import Reading
from substrate.device_gram import DeviceGram, HostVectors, device_gram_kind
from substrate.errors import DataError, DeclarationError, SolverError
from substrate.kernels import Kernel
from substrate.kernels.on_device import device_matrix
from substrate.least_squares.border import ONES
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.saddle_system import BegunSolution, SaddleSolution, begin_saddle_system, target_unit
from substrate.namespaces import begin_reading, namespace_of, not_finite, queues_work

__all__ = ["QueuedSystem"]

#: Rows beyond which a device works so long that the host does not delay it.
_MOST_ROWS = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedSystem:
    """The system of rows of weight one at one gamma, whose border is a bias; its solution is queued.

    ``rows`` are the targets and the lowest and highest value of every column, ``solution`` the numbers of a
    :class:`~substrate.least_squares.saddle_system.BegunSolution` with the diagonal and the first row of the kernel
    matrix: both are on their way to the host.
    """

    kernel: Kernel
    gram: DeviceGram
    ridge: float
    rows: Reading
    solution: Reading

    @classmethod
    def queue(cls, kernel: Kernel, X: Any, y: Any, gamma: float) -> "QueuedSystem | None":
        """Queue the system of points and targets in double precision; None where it is to be solved when it is checked.

        That is where the library waits for its device, for many rows, and for a kernel that takes a width from X or has
        no formula. What is wrong with the arguments is left to be found in its place.
        """
        n, d = (int(size) for size in X.shape)
        if not queues_work(X) or n > _MOST_ROWS or kernel.pairwise or not kernel.trusted:
            return None
        try:
            ridge = float(Regularization(gamma).ridge(np.ones(1))[0])
            if kernel.resolved(np.eye(2, d)) is not kernel or device_gram_kind(kernel, X) is not DeviceGram:
                return None
            gram, xp = DeviceGram(device_matrix(kernel, X, checked=True), kernel), namespace_of(X)
            ridges = xp.full((n,), ridge, dtype=xp.float64, device=X.device)
            gram.factorize(ridges)  # before anything else: the device has done the matrix by now
            rows = begin_reading(y, xp.min(X, axis=0), xp.max(X, axis=0))
            begun = begin_saddle_system(gram, y, ridges, solve_unchecked=partial(gram.solve, checked=False))
        except (DataError, DeclarationError, SolverError):
            return None
        numbers = (begun.alpha, begun.c, begun.products, begun.shift, begun.elimination.solved)
        solution = begin_reading(*numbers, gram.diagonal, gram.first_row)
        return cls(kernel=kernel, gram=gram, ridge=ridge, rows=rows, solution=solution)

    def refuse_not_finite(self) -> None:
        """Refuse points and targets that contain NaN, which is then an extreme of its column, or infinity."""
        y, low, high = self.rows.values()
        for name, values in (("X", (low, high)), ("y", y)):
            if not np.isfinite(values).all():
                raise not_finite(name)

    def targets(self) -> Array:
        """Return the targets on the host."""
        targets: Array = self.rows.values()[0]
        return targets

    def extremes(self) -> tuple[Array, Array]:
        """Return the lowest and the highest value of every column."""
        _, low, high = self.rows.values()
        return low, high

    def solve(self, host: HostVectors, Y: Array, ridge: Array) -> SaddleSolution | None:
        """Return the solution for targets, one column per output, and the diagonal 1/gamma on the host.

        Its entries of the kernel matrix are told to ``host``. None where another system is asked for than is queued, or
        targets whose squares overflow or vanish.
        """
        if not (ridge == self.ridge).all() or target_unit(Y) != 1.0:
            return None
        alpha, c, products, shift, solved, diagonal, first = self.solution.values()
        host.tell(diagonal, first)
        if not np.isfinite(alpha[-1, 0]):  # the last pivot of a factor that does not exist is not a number
            self.gram.check_factor()
        begun = BegunSolution(
            gram=host,
            target=Y - shift,
            ridge=ridge,
            wanted=np.zeros_like(shift),
            shift=shift,
            unit=1.0,
            elimination=ONES.eliminate(solved),
            alpha=alpha,
            c=c,
            products=products,
        )
        return begun.finish()
