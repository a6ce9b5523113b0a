"""A reduced basis for rows on a device: chosen by rows on the host; what takes all rows stays where they are."""

from dataclasses import replace
from typing import Any

import numpy as np

from problems.estimators.basis_choice import BasisChoice, ChosenBasis
from problems.estimators.prepared import Prepared, basis_facts
from substrate.closed_form.device_rows import DeviceRows
from substrate.closed_form.eigen_features import eigen_features, reconstruction_errors
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
from substrate.streaming.array_source import ArraySource
from substrate.streaming.passes import Passes
from substrate.streaming.target_summary import TargetSummary

__all__ = ["prepare_on_device"]


class _HostRows:
    """Rows of a device, brought to the host by number: selection looks at a few thousand of them."""

    def __init__(self, X: Any) -> None:
        self._X = X
        self.shape = tuple(X.shape)

    def __getitem__(self, rows: Any) -> Any:
        return to_numpy(self._X[rows, :] if isinstance(rows, slice) else take_rows(self._X, rows))


def prepare_on_device(
    kernel: Kernel, source: ArraySource, known: TargetSummary | None, choice: BasisChoice, lam: float
) -> Prepared:
    """Choose the basis and decompose its kernel matrix; ``known`` is what is known of the targets already."""
    if kernel.pairwise:
        raise DataError("a reduced basis of a precomputed kernel works on numpy arrays (K.cpu().numpy(), K.get())")
    X, Y = source.X, source.Y
    basis = _chosen(kernel, X, Y, choice, lam)
    n = basis.size
    room_on_device(X, 56.0 * n * n, f"the sums over {n} basis vectors", "take a smaller n_basis.")
    gram = DeviceGram.of(kernel, basis.points, warn=False)
    if not kernel.trusted:
        gram.check_definite()
    features = eigen_features(gram.matrix)
    rows = DeviceRows(kernel, X, Y, basis.points)
    diagonal = kernel.diag(take_rows(X, basis.scoring))
    errors = reconstruction_errors(rows.taken(basis.scoring), diagonal, features)
    error = float(namespace_of(X).mean(errors))
    targets = rows.target_summary() if known is None else known
    facts = basis_facts(gram.record(), basis, features, error)
    return Prepared(kernel, basis, rows, gram.matrix, features, facts, error, targets)


def _chosen(kernel: Kernel, X: Any, Y: Any, choice: BasisChoice, lam: float) -> ChosenBasis:
    """The choice is made on the host, by the rows it asks for; the basis goes back to the device."""
    if is_device_array(choice.basis):
        if where_it_lives(choice.basis) != where_it_lives(X) and choice.basis.ndim == 2:
            raise DataError(f"basis is {where_it_lives(choice.basis)}, X is {where_it_lives(X)}; move one of them")
        choice = replace(choice, basis=to_numpy(choice.basis))
    targets = to_numpy(Y) if isinstance(choice.basis, str) and choice.basis == "pruned" else np.empty((0, 1))
    basis = choice.chosen(kernel, ArraySource(_HostRows(X), targets), Passes(), lam)
    return replace(basis, points=on_device_of(X, basis.points))
