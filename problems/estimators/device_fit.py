"""Fits on a reduced basis on a device: the basis by rows on the host, everything that takes all rows where they are."""

from dataclasses import replace
from typing import Any

import numpy as np

from problems.estimators.basis_choice import BasisChoice, ChosenBasis
from problems.estimators.reduced_fit import Prepared, ReducedFit
from substrate.closed_form.device_reduced import DeviceRows, accumulate_on_device, solve_on_device
from substrate.closed_form.eigen_features import eigen_features, reconstruction_errors
from substrate.closed_form.reduced_basis import leverage_factor
from substrate.closed_form.reduced_spectrum import reduced_spectrum
from substrate.closed_form.reduced_statistic import origin_of
from substrate.closed_form.saddle_system import target_unit
from substrate.device_gram import DeviceGram
from substrate.errors import DataError
from substrate.kernels import Kernel
from substrate.namespaces import (
    is_device_array,
    namespace_of,
    on_device_of,
    room_on_device,
    take_rows,
    to_numpy,
    where_it_lives,
)

__all__ = ["fit_reduced_on_device"]


class _HostRows:
    """Rows of a device, brought to the host by number: selection looks at a few thousand of them."""

    def __init__(self, X: Any) -> None:
        self._X = X
        self.shape = tuple(X.shape)

    def __getitem__(self, rows: Any) -> Any:
        return to_numpy(self._X[rows, :] if isinstance(rows, slice) else take_rows(self._X, rows))


def fit_reduced_on_device(kernel: Kernel, X: Any, Y: Any, choice: BasisChoice, gamma: float) -> ReducedFit:
    """The basis, one statistic of all rows, the solution and its certificate; Y has a column an output."""
    if kernel.pairwise:
        raise DataError("a reduced basis of a precomputed kernel works on numpy arrays (K.cpu().numpy(), K.get())")
    lam = 1.0 / gamma
    basis = _chosen(kernel, X, Y, choice, lam)
    n = basis.size
    room_on_device(X, 56.0 * n * n, f"the sums over {n} basis vectors", "take a smaller n_basis.")
    gram = DeviceGram.of(kernel, basis.points)
    if not kernel.trusted:
        gram.check_definite()
    features = eigen_features(gram.matrix)
    rows = DeviceRows(kernel, X, Y, basis.points)
    diagonal = kernel.diag(take_rows(X, basis.scoring))
    errors = reconstruction_errors(rows.taken(basis.scoring), diagonal, features)
    error = float(namespace_of(X).mean(errors))
    statistic, norm = accumulate_on_device(rows, features, origin_of(gram.matrix, Y, target_unit(Y)), lam)
    spectrum = reduced_spectrum(features, statistic.origin, statistic.total, statistic.error)
    solved = solve_on_device(rows, spectrum, lam, gram.matrix, norm)
    facts = (
        *((name, fact) for name, fact in gram.record() if name != "Gram matrix"),
        ("basis", basis.told),
        ("rank", f"{features.rank} of {n}, directions of K_SS above rounding"),
        ("reconstruction error", f"{error:.2e}, mean over {len(basis.scoring)} rows"),
        ("gamma", f"{gamma:g}"),
        ("statistic", f"{statistic.method}, error estimated at {spectrum.error:.1e}"),
        ("solver", f"eigen-features, refined {solved.refinements} times"),
    )
    if spectrum.origin.unit != 1.0:
        facts += (("units", "residuals in units of max|y|"),)
    given: Any = rows
    prepared = Prepared(kernel, basis, given, gram.matrix, features, facts, error)
    factor, freedom = leverage_factor(spectrum, lam), spectrum.degrees_of_freedom(lam)
    return ReducedFit(prepared, solved.coefficients, solved.bias, solved.rows, facts, factor, freedom)


def _chosen(kernel: Kernel, X: Any, Y: Any, choice: BasisChoice, lam: float) -> ChosenBasis:
    """The choice is made on the host, by the rows it asks for; the basis goes back to the device."""
    if is_device_array(choice.basis):
        if where_it_lives(choice.basis) != where_it_lives(X) and choice.basis.ndim == 2:
            raise DataError(f"basis is {where_it_lives(choice.basis)}, X is {where_it_lives(X)}; move one of them")
        choice = replace(choice, basis=to_numpy(choice.basis))
    targets = to_numpy(Y) if isinstance(choice.basis, str) and choice.basis == "pruned" else np.empty((0, 1))
    basis = choice.chosen(kernel, _HostRows(X), targets, lam)
    return replace(basis, points=on_device_of(X, basis.points))
