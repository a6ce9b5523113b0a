r"""The errors of all rows, as sums, from the sums of the pass that a fit is computed from.

With kernel values :math:`z_i = k_S(x_i) - o` and targets :math:`t_i` about an origin, and
:math:`b' = b + o^T \beta - c`, the errors :math:`e_i = t_i - z_i^T \beta - b'` have the sums

.. math::

    \sum_i v_i z_i e_i = \sum_i v_i z_i t_i - \Big(\sum_i v_i z_i z_i^T\Big) \beta - b' \sum_i v_i z_i, \qquad
    \sum_i v_i e_i, \qquad \sum_i v_i e_i^2 ,

so a certificate needs no second pass. The differences are taken in doubled precision; what is left is the rounding of
the sums. A sum of products of c terms in sequence is right to :math:`\gamma_c = c u` times the sum of their sizes
([Higham2002]_ section 3.1), so with :math:`d_j = (\sum_i v_i z_{ij}^2)^{1/2}` and the Cauchy-Schwarz inequality

.. math:: \Big| \Delta \sum_i v_i z_{ij} e_i \Big|
          \le \gamma_c\, d_j \Big( \|t\|_v + \sum_k d_k |\beta_k| + |b'| \big(\textstyle\sum_i v_i\big)^{1/2} \Big) ,

which enters the bound on the answer, :func:`~substrate.reduced.certificate.reduced_accuracy`. It is larger than that of
a pass over the errors by about :math:`\sum_k d_k |\beta_k| / \|e\|_v`; where it is too large, that pass is made.

Errors in the sums that are not rounding, from a worker or a memory that fails, would satisfy the equations that were
solved. They are looked for independently: the products, by :math:`\sum_i v_i z_i (z_i^T w)` with a fixed w
([Freivalds1979]_), which must be :math:`(\sum_i v_i z_i z_i^T) w` up to the rounding of both; the kernel values, by one
row of every tile that is computed again by other operations. Where either differs, the pass over the errors is made.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from substrate.arrays import Array
from substrate.certificates.doubled_precision import SlicedMatrix, add, exact_product
from substrate.certificates.rounding import at_most, sum_rounding
from substrate.reduced.certificate import ErrorsRounded, Residuals, rounded_errors
from substrate.reduced.moments import Moments, Origin, probe
from substrate.reduced.rows import Seen

__all__ = ["CHECKED", "KernelSums"]

#: What the record of a certificate states of errors that were not summed over the rows.
CHECKED = (
    "errors",
    "from the sums of the fit; products agree with a second sum, kernel values of a row of every tile with a second "
    "computation",
)


@dataclass(frozen=True, slots=True)
class KernelSums:
    """Sums of kernel values about an origin, in numpy, and what the pass knows of them.

    ``probed`` are the sums of products times the probe; ``terms`` is the number of products added in sequence, and
    ``long`` that of the other terms.
    """

    moments: Moments
    origin: Origin
    probed: Array
    seen: Seen
    terms: int
    long: int

    @property
    def lengths(self) -> Array:
        """The norm of the kernel values of every basis vector, about the origin."""
        return at_most(1.0) * np.sqrt(np.maximum(np.diagonal(self.moments.second), 0.0))

    @property
    def agree(self) -> bool:
        """Whether the products and the kernel values are those that an independent computation finds."""
        m, d = self.moments, self.lengths
        w = probe(d.size)
        products = np.concatenate([m.second @ w, [m.first @ w], m.cross.T @ w])  # in the order of the pass
        sizes = np.concatenate([d, [math.sqrt(m.mass)], at_most(1.0) * np.sqrt(m.squares)]) * float(d @ np.abs(w))
        within = sum_rounding(2 * self.terms + 2 * d.size + 32) * sizes
        is_known = self.seen.deviation <= 2.0 * self.seen.rounding + sum_rounding(16) < 1.0
        return bool(is_known and np.all(np.abs(products - self.probed) <= within))

    def slice_sums(self) -> SlicedMatrix:
        """Return the products and sums of kernel values, and the mass, for differences in doubled precision."""
        m = self.moments
        beside = np.append(m.first, m.mass)
        return SlicedMatrix(np.column_stack([np.vstack([m.second, m.first]), beside]))

    def residuals(
        self, beta: Array, bias: Array, sizes: Array, sliced: SlicedMatrix
    ) -> tuple[Residuals, ErrorsRounded]:
        """Return the sums over the errors of all rows, and bounds on their rounding.

        Coefficients and bias are in units of the targets; ``sizes`` are the roots of k(z, z) of the basis.
        """
        m, o, c, d = self.moments, self.origin.kernel_values, self.origin.targets, self.lengths
        outputs, root = bias.size, math.sqrt(m.mass)
        slope = np.empty_like(beta)
        total, squares, pulled, shifted = (np.empty(outputs) for _ in range(4))
        short, many = sum_rounding(self.terms + 12), sum_rounding(self.long + 12)
        zero = np.zeros(1)
        for k in range(outputs):
            level, _ = exact_product(o[None, :], beta[:, k])
            high, low = add(add(level, (bias[[k]], zero)), (-c[[k]], zero))
            shift = float(high[0] + low[0])
            product, check = sliced.times(np.append(-beta[:, k], -shift))
            high, low = add(product, (np.append(m.cross[:, k], m.targets[k]), np.zeros_like(check)))
            pulls, total[k] = (high + low)[:-1], float(high[-1] + low[-1])
            slope[:, k] = pulls + o * total[k]
            reached, target_size = float(d @ np.abs(beta[:, k])), at_most(math.sqrt(m.squares[k])) + root * abs(shift)
            terms = reached + target_size
            # kernel values that are all at the origin have sums of zero, which no rounding can change
            unknown = (check[:-1][d > 0.0] / d[d > 0.0]).max(initial=0.0)
            pulled[k] = at_most(short * terms) + unknown
            shifted[k] = at_most(short * reached + many * target_size) + float(check[-1]) / root
            inside = float(m.squares[k] - m.cross[:, k] @ beta[:, k] - m.targets[k] * shift)
            inside -= float(beta[:, k] @ pulls) + shift * float(total[k])
            squares[k] = max(inside, 0.0) + 4.0 * (many + sum_rounding(d.size)) * terms**2
        about_zero = m.squares + 2.0 * c * m.targets + m.mass * c * c
        kernel = float(np.trace(m.second) + 2.0 * (o @ m.first) + m.mass * (o @ o))
        sums = Residuals(
            count=m.count,
            slope=slope,
            total=total,
            squares=squares,
            targets=np.maximum(about_zero, 0.0),
            kernel_squares=max(kernel, 0.0),
            shifts=m.targets,
            spreads=m.squares,
            mass=m.mass,
            diagonal=self.seen.diagonal,
            rounding=self.seen.rounding,
        )
        rounded = rounded_errors(sums, sizes, beta, bias, 8)
        return sums, replace(rounded, pulled=pulled, shifted=shifted)
