r"""A proof that a recursion :math:`y_t = f(y_{t-1}, \dots, y_{t-p}, u_t)` forgets where it began.

Let the outputs of a box :math:`B = [\ell, h]^p \times U` satisfy

.. math:: \ell \le f(x) \le h \quad\text{and}\quad \sum_{i=1}^p \Big| \frac{\partial f}{\partial x_i}(x) \Big| \le L < 1
          \quad\text{for all } x \in B .

Then a run that begins in the box stays there, and two runs with the same inputs satisfy, by the mean value theorem
along the segment between them, :math:`|y_t - y_t'| \le L \max_{1 \le i \le p} |y_{t-i} - y_{t-i}'|`, so that with m the
largest lag

.. math:: |y_t - y'_t| \le L^{\lceil t/m \rceil} \max_i |y_{-i} - y'_{-i}| ,

and with constant inputs every run tends to the one fixed point of the box. If every step is computed with an error of
at most :math:`\epsilon`, errors add up to at most :math:`\epsilon / (1 - L)`.

Both conditions are proved by the oracle of :mod:`~substrate.composition.shape_oracle`, rounding included. The sum of
sizes is the largest of :math:`\sum_i \sigma_i \partial_i f` over the signs :math:`\sigma`, which are tried within every
group of columns that the kernel joins; groups of an additive kernel add up. More than three columns at once are
refused: the cells of a proof grow as the power of that.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.composition.everywhere import Everywhere, ShapeConstraint, ShapeTerm
from substrate.composition.expanded_function import ExpandedFunction, ExpansionTerm
from substrate.composition.level import Substrate
from substrate.composition.shape_oracle import LowestValue, ShapePlan
from substrate.errors import DataError
from substrate.kernels import Kernel

__all__ = ["StabilityProof", "prove_contraction"]


@dataclass(frozen=True, slots=True)
class StabilityProof:
    """What is proved of a recursion in a box.

    Parameters
    ----------
    box
        The lowest and the highest output.
    lower, upper
        Numbers that f is proved to be between in the box.
    contraction
        A number that the sum of the sizes of the derivatives in the lags of the output is proved not to exceed.
    contraction_found
        The largest such sum that was found, without proof: the proved one is no smaller.
    lags
        The lags of the output.
    cells
        The number of cells of all proofs.
    """

    box: tuple[float, float]
    lower: float
    upper: float
    contraction: float
    contraction_found: float
    lags: tuple[int, ...]
    cells: int

    @property
    def stays(self) -> bool:
        """Whether f is proved to map the box into itself."""
        return self.lower >= self.box[0] and self.upper <= self.box[1]

    @property
    def holds(self) -> bool:
        """Whether both conditions are proved: runs stay in the box, and forget where they began."""
        return self.stays and self.contraction < 1.0

    def __str__(self) -> str:
        rows = (
            f"f in the box: between {self.lower:.6g} and {self.upper:.6g}, the box is {self.box[0]:.6g} to "
            f"{self.box[1]:.6g}: " + ("mapped into itself" if self.stays else "not proved to be mapped into itself"),
            f"sum of |df/dy(t-i)|: at most {self.contraction:.6g}, {self.contraction_found:.6g} found: "
            + ("below one" if self.contraction < 1.0 else "not proved to be below one"),
        )
        if self.holds:
            verdict = (
                f"stable: a difference of two runs shrinks to {self.contraction:.3g} of itself every "
                f"{max(self.lags)} steps, and errors of a step add up to at most {1.0 / (1.0 - self.contraction):.3g} "
                "times one"
            )
        else:
            verdict = "stability is not proved; a smaller box, or a smoother machine (a smaller gamma), may be"
        return "\n".join((verdict, *rows, f"cells: {self.cells}"))


def prove_contraction(
    kernel: Kernel,
    points: Array,
    coefficients: Array,
    bias: float,
    lags: Sequence[int],
    box: Array,
    gap: float = 1e-3,
    time_limit: float = math.inf,
    *,
    units: Array | None = None,
    outputs: tuple[float, float] | None = None,
) -> StabilityProof:
    """Prove both conditions for f(x) = sum_i a_i k(x_i, x) + b, whose first columns are the outputs at these lags.

    ``gap`` is how near the bounds come to what they bound: of the sum of derivatives as it is, of the values as a share
    of the width of the box. ``time_limit`` is in seconds, for each proof; a bound that is not near is still one.
    Columns may be measured in ``units``, in which ``points`` and ``box`` are; ``outputs`` is then the range of the
    output in its own unit.
    """
    box = np.asarray(box, dtype=np.float64)
    if box.shape != (points.shape[1], 2) or not np.isfinite(box).all() or (box[:, 0] > box[:, 1]).any():
        raise DataError(f"box must have a finite lower and upper end for each of {points.shape[1]} columns")
    lag_columns = range(len(lags))
    substrate = Substrate(kernel, points, np.zeros(points.shape[0]))
    function = ExpandedFunction(substrate, (ExpansionTerm(points, np.asarray(coefficients)),), float(bias))
    everywhere = Everywhere(box)

    def prove(terms: Sequence[ShapeTerm], slack: float) -> LowestValue:
        plan = ShapePlan.of(ShapeConstraint(everywhere, tuple(terms), 0.0))
        return plan.bind([function]).proof(slack, time_limit=time_limit)

    slopes = tuple(ShapeTerm(1.0, substrate, ((column, 1),)) for column in lag_columns)
    groups = ShapePlan.of(ShapeConstraint(everywhere, slopes, 0.0)).groups  # refuses too many columns at once
    scales = np.ones(points.shape[1]) if units is None else np.asarray(units, dtype=np.float64)
    low, high = outputs or (float(box[: len(lags), 0].max()), float(box[: len(lags), 1].min()))
    value_gap = gap * (high - low if high > low else 1.0)
    lowest = prove((ShapeTerm(1.0, substrate),), value_gap)
    highest = prove((ShapeTerm(-1.0, substrate),), value_gap)
    total, found, cells = 0.0, 0.0, lowest.cells + highest.cells
    for group in groups:
        columns = [column for column in lag_columns if column in group.columns]
        largest, seen = 0.0, 0.0
        for signs in product((1.0, -1.0), repeat=len(columns)):
            terms = [ShapeTerm(-s / scales[c], substrate, ((c, 1),)) for s, c in zip(signs, columns, strict=True)]
            proof = prove(terms, gap / len(groups))
            largest, seen = max(largest, -proof.lower), max(seen, -proof.found)
            cells += proof.cells
        total, found = total + largest, found + seen
    total += relative_rounding(4.0 * len(groups)) * total
    return StabilityProof(
        box=(low, high),
        lower=lowest.lower,
        upper=-highest.lower,
        contraction=total,
        contraction_found=min(found, total),
        lags=tuple(int(lag) for lag in lags),
        cells=cells,
    )
