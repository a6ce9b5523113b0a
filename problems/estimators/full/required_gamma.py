"""The gamma at which an LS-SVM has a stated noise or norm, with a proved bracket of it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from problems.estimators.shared.left_out import has_closed_forms
from substrate.arrays import Array, to_numpy
from substrate.certificate import Certificate, Tolerance, accuracy_of_outputs, warn_unless_holds
from substrate.errors import DeclarationError
from substrate.kernels import Kernel
from substrate.numbers import at_most
from substrate.operators.border import Border
from substrate.operators.gram import Gram
from substrate.values import Record

__all__ = ["RequiredGamma", "find_gammas", "gamma_for"]

_FORMULA = "(lambda_2 / lambda_1 - 1) ||e||, over the bracket of the root"


@dataclass(frozen=True, slots=True, eq=False)
class RequiredGamma(Record):
    """The result of ``gamma_for``.

    Attributes
    ----------
    gamma : float or array of shape (n_outputs,)
        The weight of the errors at which the machine has the noise, or the norm.
    gamma_range : tuple of float, or array of shape (n_outputs, 2)
        Gammas between which the exact root is proved to be.
    reachable : tuple of float, or array of shape (n_outputs, 2)
        The values of the noise, or of the norm, that some gamma has.
    certificate : Certificate
        How far fitted values at ``gamma`` may be from those at the exact root.
    """

    gamma: Any
    gamma_range: Any
    reachable: Any
    certificate: Certificate


def gamma_for(
    self: Any, X: Any, y: Any, sample_weight: Any = None, *, noise: float | None = None, norm: float | None = None
) -> RequiredGamma:
    """Find the gamma at which this machine has a stated noise or norm; the model itself does not change.

    Both are roots of one equation on the spectrum of the kernel matrix, which has one solution where it has any
    (:mod:`substrate.select.secular_equation`). A bracket of it is proved by the machines at its two ends.

    Parameters
    ----------
    X, y, sample_weight
        As for :meth:`fit`.
    noise : float, default=None
        Standard deviation of the noise, in the units of y: the mean of the squared errors, by the weights of the rows,
        is ``noise`` squared (Morozov's discrepancy principle).
    norm : float, default=None
        The norm of w (Ivanov's constraint). Exactly one of the two is given.

    Returns
    -------
    RequiredGamma
        ``gamma``, its proved bracket ``gamma_range``, the ``reachable`` values and a certificate.

    Examples
    --------
    >>> from problems import LSSVMRegressor
    >>> from substrate.datasets import motorcycle
    >>> from substrate.kernels import RBF
    >>> X, y = motorcycle()
    >>> model = LSSVMRegressor(RBF(6.6))
    >>> found = model.gamma_for(X, y, noise=22.0)
    >>> model.gamma = found.gamma
    >>> round(float(((y - model.fit(X, y).predict(X)) ** 2).mean() ** 0.5), 6)
    22.0
    """
    from substrate.select.secular_equation import quantity_given  # every estimator has this method, and few call it

    asked = quantity_given(noise, norm)
    if not has_closed_forms(self) or self.basis is not None:
        raise DeclarationError(
            "gamma_for is of the plain machine; leave basis, robust, c, monotone, convex and bounds out"
        )
    machine = clone(self)
    tolerance = machine._tolerance()
    X, y, weights = machine._check_data(X, y, sample_weight)
    X, y, weights, *_ = machine._weighted(X, to_numpy(y), to_numpy(weights))
    kernel, Y = machine._resolved_kernel(X), y[:, None] if y.ndim == 1 else y
    required = find_gammas(kernel, X, Y, weights, machine._border(X, weights), tolerance, *asked)
    warn_unless_holds(required.certificate, "rounding hides on which side of the root the machines near it are")
    if y.ndim > 1:
        return required
    ends, reachable = (tuple(float(end) for end in each[0]) for each in (required.gamma_range, required.reachable))
    return RequiredGamma(float(required.gamma[0]), ends, reachable, required.certificate)


def find_gammas(
    kernel: Kernel, X: Any, Y: Array, weights: Array, border: Border, tol: float, quantity: Any, value: float
) -> RequiredGamma:
    """Return the gamma of every output at which its machine has a noise or a norm, with brackets."""
    from substrate.operators.spectrum import centred_spectrum
    from substrate.select.secular_equation import SecularEquation

    gram = Gram.of(kernel, X)
    p = 0.0 if kernel.pairwise else kernel.rounding(X)
    spectrum = centred_spectrum(gram, p, weights, border=border)
    targets = spectrum.targets(Y)
    roots = []
    for k in range(Y.shape[1]):
        equation = SecularEquation.of(spectrum, targets, k)
        lam = equation.root(quantity, value)
        low, high = equation.bracket(quantity, value, lam) or (0.0, np.inf)
        bracket = (1.0 / high, 1.0 / low if low > 0.0 else np.inf)
        distance = at_most((high / low - 1.0) * equation.between("noise", high)[1]) if low > 0.0 else np.inf
        answer = Tolerance.of(Y[:, k], to_numpy(weights), tol).row(distance, _FORMULA)
        roots.append((1.0 / lam, bracket, equation.reachable(quantity), answer))
    gammas, brackets, reachable, accuracies = zip(*roots, strict=True)
    facts = (("gamma for", f"{quantity} = {value:.6g}"), *gram.record())
    certificate = Certificate(f"Gamma by the {quantity} of the machine", (accuracy_of_outputs(accuracies),), facts)
    return RequiredGamma(np.array(gammas), np.array(brackets), np.array(reachable), certificate)
