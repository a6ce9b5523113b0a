"""The base of every kernel estimator: validated input, a frozen kernel that can be tuned, prediction in blocks.

``certify`` and ``prove`` go through the machines that a model stores (:class:`StoredMachine`), one for each output or
pair of classes, or one for all of them where a pass over the rows checks all at once. The training data are given
again, and no result of the fit is trusted: kernel values, fitted values and residuals are recomputed.
"""

import copy
import os
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import Tags
from sklearn.utils.validation import _check_sample_weight, check_array, check_is_fitted, check_X_y, validate_data

from problems.estimators.shared.checks import (
    check_home,
    check_state,
    explain_missing,
    refuse_streams,
    warn_if_unscaled,
)
from problems.estimators.shared.coded import NUMBERS, Coding
from substrate.arrays import (
    Array,
    check_finite,
    device_numbers,
    is_device_array,
    is_sparse,
    namespace_of,
    on_device_of,
    own_copy,
    positive,
    real_array,
    refuse_disguised,
    row_blocks,
    same_home,
    take_points,
    take_rows,
    to_numpy,
    where_it_lives,
)
from substrate.basis import Basis
from substrate.certificate import ACCURATE, Certificate, Row, accuracy_of_outputs, worst_rows
from substrate.errors import DataError
from substrate.kernels import Componentwise, Kernel, Restricted, as_kernel
from substrate.operators.passes import each_block
from substrate.operators.sources import Source, source_of, streams

if TYPE_CHECKING:
    from substrate.bounds.proof import Proof
    from substrate.kernels.nodes import Node

__all__ = [
    "Added",
    "Facts",
    "KernelEstimator",
    "StoredFit",
    "StoredMachine",
    "Uses",
    "WeightedRows",
    "certify_stored",
    "check_weights",
    "components_of",
    "refuse_extreme",
    "weight_facts",
]

#: Choices of parameters, each by name.
Uses = tuple[Mapping[str, Any], ...]
#: What a certificate states.
Facts = tuple[tuple[str, str], ...]
#: Rows and facts of a certificate.
Added = tuple[tuple[Row, ...], Facts]


def weight_facts(weights: Any) -> Facts:
    """Return the weights of rows, for the record of a certificate; nothing where all are one."""
    given = np.ones(1) if weights is None else to_numpy(weights)
    if (given == 1.0).all():
        return ()
    return (("sample_weight", f"{given.min():.3g} to {given.max():.3g}; residuals are weighted"),)


class StoredMachine(Protocol):
    """A machine as a model stores it, on its training rows."""

    def certify(self) -> Added:
        """Return the rows of its certificate, first the row of the answer, and facts."""

    def prove(self) -> "Proof":
        """Return the proof of its answer."""


class StoredFit(NamedTuple):
    """The machines of a model, and what it adds to a certificate: rows that follow theirs, facts that come before."""

    machines: Iterable[StoredMachine]
    added: Added = ((), ())


def certify_stored(title: str, stored: StoredFit) -> Certificate:
    """Return the certificate of the machines that a model stores: the worst of their rows, and the facts of all."""
    parts = [machine.certify() for machine in stored.machines]
    facts = dict(fact for _, more in parts for fact in more)
    added, first = stored.added
    rows = worst_rows([rows for rows, _ in parts])
    return Certificate(f"{title}, checked again", (*rows, *added), (*first, *facts.items()))


class WeightedRows(NamedTuple):
    """The rows of positive weight with their targets and weights, and their numbers among the ``n_given`` rows."""

    X: Any
    y: Any
    weights: Any
    numbers: Any
    n_given: int

    def places(self, support: Any) -> Any:
        """Return the places of a model's rows among these; refuse other rows."""
        places = np.searchsorted(self.numbers, support)
        if places.size and (places.max() >= self.numbers.size or not np.array_equal(self.numbers[places], support)):
            raise DataError(
                f"the model was fitted to other rows than these {self.numbers.size}; pass the X and y of the fit"
            )
        return places


@dataclass(eq=False, repr=False)
class KernelEstimator(BaseEstimator):
    """A base of all estimators with a ``kernel``; :meth:`fit` sets ``kernel_`` and the expansion.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        A kernel of :mod:`substrate.kernels`, its name, or a function of two point sets.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.
    """

    kernel: Any = "rbf"
    kernel_: Kernel = field(init=False)
    certificate_: Certificate = field(init=False)
    n_features_in_: int = field(init=False)
    _: KW_ONLY
    tol: float = ACCURATE
    #: Parameters that are frozen values, where an estimator has them, each with the function that makes one from any
    #: accepted argument.
    _readers: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        "kernel": as_kernel,
        "kernel_y": as_kernel,
        "basis": Basis.of,
    }
    #: Parameters other than its defaults with which it is typically used: the shared checks also fit it with each.
    _typical: ClassVar[Uses] = ()
    #: The page of :mod:`problems` that states the machine.
    _page: ClassVar[str]
    #: The title of its certificates.
    _title: ClassVar[str]
    #: The parameter that a fit chooses by itself, if any.
    _chooses: ClassVar[str | None] = None
    #: Whether targets are codes, where zero excludes a row from a machine.
    _labels: ClassVar[bool] = False
    #: Whether a precomputed kernel matrix can stand for the points.
    _takes_matrix: ClassVar[bool] = True
    #: Whether arrays of torch and CuPy are fitted where they are; the others accept numpy only.
    _on_devices: ClassVar[bool] = False
    #: Whether :meth:`fit` takes ``sample_weight``.
    _takes_weights: ClassVar[bool] = True

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``kernel__sigma=2.0`` replaces the kernel by one with that width.

        Kernels and bases are frozen values. scikit-learn would call ``set_params`` on a value and drop the new one that
        it returns, so nested parameters of values are set here.
        """
        readers = {name: read for name, read in self._readers.items() if name in self._get_param_names()}
        nested = {key: value for key, value in params.items() if "__" in key and key.split("__")[0] in readers}
        super().set_params(**{key: value for key, value in params.items() if key not in nested})
        for name, read in readers.items():
            inner = {key.removeprefix(f"{name}__"): nested[key] for key in nested if key.startswith(f"{name}__")}
            value_given = getattr(self, name) if inner else None
            if hasattr(value_given, "set_params"):  # a kernel object of scikit-learn, which is mutable
                setattr(self, name, clone(value_given).set_params(**inner))
            elif inner:
                setattr(self, name, read(value_given).with_params(**inner))
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        is_pairwise = self.kernel == "precomputed" or bool(getattr(self.kernel, "pairwise", False))
        tags.input_tags.pairwise = self._takes_matrix and is_pairwise
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "support_values_")

    @property
    def _rows_have_targets(self) -> bool:
        """Return whether rows may be read in passes and bring their own targets: blocks ``(X, y)``."""
        return getattr(self, "basis", None) is not None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write this estimator to a file that :func:`problems.load` reads back; no pickle, nothing executed.

        Parameters that act outside the model (``n_jobs``, ``verbose``) are not written and have their
        defaults after loading. The file is read back before it replaces an existing one.
        """
        from substrate.files import save  # most fits do not need this import

        save(self, path)

    def to_numpy(self) -> Self:
        """Return a copy of this model with its arrays in numpy, wherever it was fitted."""
        copy_on_host = copy.copy(self)
        for name, value in vars(self).items():
            if name == "basis" and isinstance(value, Basis):
                value = value.with_params(rule=to_numpy(value.rule))
            setattr(copy_on_host, name, to_numpy(value))
        return copy_on_host

    def certify(self, X: Any, y: Any = None, sample_weight: Any = None) -> Certificate:
        """Check the present coefficients of this model on the training data, given again.

        Everything is recomputed from the ``X``, ``y`` and ``sample_weight`` of the fit and what :meth:`predict` uses;
        a coefficient changed since the fit makes the certificate fail. Where the bound needs multipliers that a model
        does not keep, as for maximal variation, the optimum is computed again, which takes as long as a fit.
        ``sample_weight`` is for estimators whose ``fit`` takes it; ``y`` may be omitted where the rows have their own
        targets, as blocks ``(X, y)`` do.
        """
        self._check_given_again(X, y, sample_weight)
        return certify_stored(self._title, self._recall_fit(X, y, sample_weight))

    def prove(self, X: Any, y: Any, sample_weight: Any = None) -> "Proof":
        """Prove in ball arithmetic a bound on the distance of the fitted values from the exact optimum.

        ``X``, ``y`` and ``sample_weight`` are the same as in the fit, in memory; for a classifier its codes are fitted.
        Only the stored numbers of the fit are used, and multipliers where the bound needs some: it does not depend on
        how they were found. Needs python-flint, ``pip install "lssvm-substrate[proof]"``.
        """
        self._check_given_again(X, y, sample_weight)
        stored = self._recall_fit(X, y, sample_weight)
        return accuracy_of_outputs([machine.prove() for machine in stored.machines])

    @abstractmethod
    def _recall_fit(self, X: Any, y: Any, sample_weight: Any) -> StoredFit:
        """Return what the model stores, on the data of the fit."""

    def _machine_with(self, kind: type[Any], **chosen: Any) -> Any:
        """Return an estimator with the parameters that it shares with this one, and the chosen ones."""
        parameters, machine = self.get_params(deep=False), kind()
        shared = {name: parameters[name] for name in machine.get_params(deep=False) if name in parameters}
        return machine.set_params(**shared | chosen)

    def _check_given_again(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Refuse to check without targets, or with weights that the fit cannot have had."""
        check_is_fitted(self)
        name = type(self).__name__
        if y is None and not self._rows_have_targets:
            raise DataError(
                f"{name}.certify needs y, the targets of the fit as well as its X: a model keeps no targets"
            )
        if sample_weight is not None and not self._takes_weights:
            raise DataError(
                f"{name}.fit takes no sample_weight, so this model was fitted without sample_weight; leave it out"
            )

    def _further_attributes(self) -> dict[str, Any]:
        """Return further attributes for a file, which were computed after the fit."""
        return {}

    def _check_loaded(self) -> None:
        """Refuse inconsistent attributes read from a file: shapes, kinds, and one trial prediction."""
        if self.__sklearn_is_fitted__():
            check_state(self)

    def _keep_expansion(self, vectors: Any, support: Any, kernel: Kernel, support_values: Array, bias: Any) -> None:
        """Set the attributes of every expansion; the model is fitted from then on, so nothing may fail afterwards."""
        self.kernel_ = kernel
        self.support_ = support
        if not kernel.pairwise:
            is_on_device = is_device_array(vectors)
            self.support_vectors_ = (
                namespace_of(vectors).asarray(vectors, copy=True) if is_on_device else vectors.copy()
            )
        self.bias_ = bias
        self.support_values_ = support_values

    def _keep_outputs(self, vectors: Any, support: Any, kernel: Kernel, columns: Array, bias: Array) -> None:
        """Keep an expansion with one column and one bias for each output, of a single output a vector and a number."""
        if bias.shape[0] == 1:
            self._keep_expansion(vectors, support, kernel, own_copy(columns[:, 0, ...]), float(bias[0]))
        else:
            self._keep_expansion(vectors, support, kernel, own_copy(columns), bias)

    def _begin_fit(self) -> None:
        """Drop attributes of an earlier fit, so that a failed one leaves none, and check ``tol``, before any work."""
        for name in tuple(vars(self)):
            if name.endswith("_") and not name.startswith("_"):
                delattr(self, name)
        self._tolerance()

    def _tolerance(self) -> float:
        """Return the accuracy required of this model's answer, as a share of the spread of y."""
        return positive(self.tol, "tol")

    def _read_rows(self, X: Any, y: Any, sample_weight: Any, again: bool = False) -> WeightedRows:
        """Return the rows of positive weight in memory, checked.

        Blocks of rows and Dask collections are read once. ``again`` is for the rows of a fit, which are checked without
        changing the model.
        """
        source = source_of(X, y) if self._rows_have_targets and streams(X, y) else None
        if source is not None:
            X, y = _read_blocks(source)
        check = self._check_again if again else self._check_data
        X, y, weights = check(X, y, sample_weight)
        if source is not None and not again:
            self._keep_columns(source)
        rows = self._weighted(X, y, weights)
        if again and getattr(self, "n_rows_", rows.numbers.size) != rows.numbers.size:
            suffix = "" if rows.numbers.size == X.shape[0] else " of positive weight"
            raise DataError(f"the model was fitted to {self.n_rows_} rows, these are {rows.numbers.size}{suffix}")
        return rows

    def _keep_columns(self, source: Source) -> None:
        """Keep the number of columns of rows that are read in passes, and their names, if any."""
        self.n_features_in_ = source.n_features
        if source.feature_names is not None:
            self.feature_names_in_ = np.array(source.feature_names, dtype=object)

    def _check_again(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Array]:
        """Return the data of the fit, given again, checked without changing this model."""
        X, y, weights = copy.copy(self)._check_data(X, y, sample_weight)
        if not self.kernel_.pairwise and X.shape[1] != self.n_features_in_:
            raise DataError(f"X has {X.shape[1]} features, this model was fitted to {self.n_features_in_}")
        return X, y, weights

    def _check_data(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Array]:
        """Return rows, targets (numbers, or labels of any kind) and weights, after scikit-learn's checks and more.

        Rows on a device are checked there, targets and weights on the host.
        """
        numeric = not self._labels
        rules: dict[str, Any] = {"y_numeric": numeric, "ensure_min_samples": 2}
        rules["multi_output"] = self.__sklearn_tags__().target_tags.multi_output
        refuse_disguised(y, "y", text=not numeric)
        refuse_disguised(sample_weight, "sample_weight")
        if is_sparse(y):
            raise DataError("y is sparse; pass a dense array, y.toarray()")
        if is_device_array(X):
            X = self._check_points(X, y)
            same_home(X=X, y=y, sample_weight=sample_weight)
            _, targets = check_X_y(np.zeros((X.shape[0], 1)), to_numpy(y), estimator=self, **rules)
        else:
            X, targets = self._check_points(X, y, **rules)
        if targets.ndim == 2 and targets.shape[1] == 1:
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected; it is read as y.ravel().",
                DataConversionWarning,
                stacklevel=3,
            )
            targets = targets.ravel()
        weights = check_weights(to_numpy(sample_weight), targets)
        if numeric:
            targets = targets.astype(np.float64)
            if not np.isfinite(targets).all():  # None in an array of objects becomes NaN only here
                raise DataError("y contains NaN, infinity or None; drop or impute those rows")
        return X, on_device_of(X, targets), on_device_of(X, weights)

    def _check_points(self, X: Any, y: Any = "no_validation", *, reset: bool = True, **rules: Any) -> Any:
        """Return rows where they are, and targets by the ``rules`` of scikit-learn if they are numpy's; ``reset`` sets
        the number of columns and their names, which are compared otherwise.
        """
        with explain_missing(self):
            if is_device_array(X):
                if not self._on_devices:
                    raise DataError(
                        f"{type(self).__name__} works on numpy arrays; take X and y to numpy first "
                        "(X.cpu().numpy() for torch, X.get() for CuPy)"
                    )
                points = device_numbers(X, "X", (2,))
                check_finite(X=points)
                validate_data(self, points, y, reset=reset, skip_check_array=True)
                return points
            refuse_streams(self, X, None if isinstance(y, str) else y)
            refuse_disguised(X, "X")
            return validate_data(self, X, y, reset=reset, accept_sparse="csr", dtype=np.float64, order="C", **rules)

    def _validation(self, X_val: Any, y_val: Any) -> tuple[Any, Any]:
        """Return validation rows and their targets or labels, checked like training rows, with their own names in
        messages."""
        numeric = not self._labels
        refuse_disguised(X_val, "X_val")
        refuse_disguised(y_val, "y_val", text=not numeric)
        targets = real_array(y_val, "y_val", ndim=1) if numeric else np.asarray(y_val)
        with explain_missing(self):
            points = check_array(X_val, accept_sparse="csr", dtype=np.float64, input_name="X_val")
        if points.shape[1] != self.n_features_in_:
            raise DataError(f"X_val has {points.shape[1]} features, X has {self.n_features_in_}")
        if targets.shape != points.shape[:1]:
            received = " x ".join(map(str, targets.shape))
            raise DataError(
                f"y_val must have one entry per row of X_val: expected {points.shape[0]}, received {received}"
            )
        return self._check_points(X_val, reset=False), targets

    def _weighted(self, X: Any, y: Any, weights: Array) -> WeightedRows:
        """Return the rows of positive weight with their weights, times the weights of their classes, if any."""
        (rows,) = np.nonzero(to_numpy(weights))
        if rows.size < 2:
            raise DataError(
                f"at least two rows of positive weight are needed, received {rows.size} of {weights.shape[0]}; "
                "give more rows a positive sample_weight"
            )
        used = to_numpy(weights)[rows]
        refuse_extreme(used)
        if rows.size == weights.shape[0]:
            return WeightedRows(X, y, weights, rows, rows.size)
        kept = take_points(X, rows, self.__sklearn_tags__().input_tags.pairwise)
        return WeightedRows(kept, take_rows(y, rows), take_rows(weights, rows), rows, int(weights.shape[0]))

    def _resolved_kernel(self, X: Any, kernel: Kernel | None = None) -> Kernel:
        """Return the kernel, by default the machine's, with its widths as numbers; warn of columns whose scales are
        far apart.
        """
        kernel = kernel or self._own_kernel()
        if kernel.pairwise and X.shape[0] != X.shape[1]:
            raise DataError(f"a precomputed kernel matrix must be square, received shape {X.shape}")
        if not is_sparse(X):
            for columns in kernel.compared_columns(X.shape[1]):
                warn_if_unscaled(self, X, columns, kernel)
        return kernel.resolved(X)

    def _own_kernel(self, given: Any = None) -> Kernel:
        """Return the kernel of the machine, made from the parameter or a candidate of a search."""
        return as_kernel(self.kernel if given is None else given)

    def _encode(self, y: Any) -> Coding:
        """Return the coding of the targets: of numbers, unless they are labels."""
        return NUMBERS

    def _codes_again(self, y: Any) -> Any:
        """Return the targets of the fit, given again, one column per output."""
        return NUMBERS.codes(y)

    def _keep_classes(self, classes: Coding) -> None:
        """Set the attributes for decoding, where there are classes."""

    def _outputs(self) -> tuple[int, ...]:
        """Return the shape of one row's prediction."""
        return self.support_values_.shape[1:]

    def _unpenalised(self, X: Any) -> Any:
        """Return what is added to the kernel expansion at the rows of X: one number per output, or one line per row."""
        return self.bias_

    def _evaluate(self, X: Any) -> Array:
        """Return the predictions of rows that were checked."""
        points = None if self.kernel_.pairwise else self.support_vectors_
        return self.kernel_.expansion_values(points, self.support_values_, self._unpenalised(X), X, self.support_)

    def _expansion(self, X: Any) -> Array:
        """Return sum_i alpha_i k(x_i, x) + b for every row x, block by block in constant memory."""
        check_is_fitted(self)
        if self._rows_have_targets and streams(X):
            return self._evaluate_stream(X)
        return self._evaluate(self._new_points(X))

    def _evaluate_stream(self, X: Any) -> Array:
        """Return the predictions of rows that are read in passes, checked against the columns of the fit."""
        self._refuse_passes()
        rows = source_of(X)
        if self.kernel_.pairwise:
            raise DataError("rows of a precomputed kernel matrix are predicted in memory; give them as an array")
        if rows.n_features != self.n_features_in_:
            raise DataError(f"{rows.name} has {rows.n_features} columns, the model has {self.n_features_in_}")
        return np.concatenate(list(each_block(rows, lambda block: self._evaluate(block.X))))

    def _refuse_passes(self) -> None:
        """Refuse rows in passes for a model on a device, which reads no files, with advice."""
        if is_device_array(self.support_values_):
            raise DataError(
                f"this {type(self).__name__} is fitted to arrays of {where_it_lives(self.support_values_)}, and rows "
                "that are read in passes are numpy's; model.to_numpy() takes the model to numpy"
            )

    def _express(self, x: "Sequence[Node]") -> "list[Node]":
        """Return the outputs as formulas of the coordinates of a row, in the units of the machine: what
        :meth:`_evaluate` computes.
        """
        from substrate.kernels.nodes import add_outputs

        return add_outputs(self._express_kernel(x), np.atleast_1d(self.bias_))

    def _express_kernel(self, x: "Sequence[Node]") -> "list[Node]":
        """Return the formulas of the kernel expansion alone."""
        from substrate.kernels.nodes import expand_kernel

        coefficients = np.reshape(self.support_values_, (self.support_.size, int(np.prod(self._outputs()))))
        return expand_kernel(self.kernel_, self.support_vectors_, coefficients, x)

    def _component_columns(self) -> tuple[tuple[int, ...], ...]:
        """Return the inputs of each component of a sum over the inputs."""
        return tuple(part.columns for part in components_of(self.kernel_, self.n_features_in_))

    def _coefficients_of(self, component: int) -> Array:
        """Return the coefficients of a component: all components share one expansion."""
        return self.support_values_

    def _component_values(self, X: Any) -> Array:
        """Return the components of a sum over the inputs."""
        parts, vectors = components_of(self.kernel_, int(X.shape[1])), self.support_vectors_
        values = np.zeros((X.shape[0], len(parts), *self._outputs()))
        for rows in row_blocks(X.shape[0], vectors.shape[0]):
            for number, part in enumerate(parts):
                values[rows, number] = part(X[rows], vectors) @ self._coefficients_of(number)
        return values

    def _new_points(self, X: Any) -> Any:
        """Return rows to predict, checked, in the form that the machine takes, on the model's device."""
        check_is_fitted(self)
        if is_device_array(X) or is_device_array(self.support_values_):
            check_home(self, self.support_values_, X)
        return self._check_points(X, reset=False)

    def _fitted_values(self, X: Any) -> Array:
        """Return what predict returns for the rows of the fit, checked by the caller and without weights of zero."""
        if self.kernel_.pairwise:
            return self.kernel_.expansion_values(None, self.support_values_, self._unpenalised(X), X)
        return self._evaluate(X)


def check_weights(sample_weight: Any, rows: Any) -> Array:
    """Return one weight for each of the rows, ones unless given, none of them negative."""
    weights = np.asarray(_check_sample_weight(sample_weight, rows, dtype=np.float64), dtype=np.float64)
    if (weights < 0.0).any():
        raise DataError(f"sample_weight must not be negative, received {weights.min()} at row {weights.argmin()}")
    return weights


def components_of(kernel: Any, n_features: int) -> tuple[Restricted, ...]:
    """Return the components of a sum over the inputs, also of one on some columns; none of any other kernel."""
    if isinstance(kernel, Componentwise):
        return kernel.components(n_features)
    if isinstance(kernel, Restricted) and isinstance(kernel.kernel, Componentwise):
        inside = kernel.kernel.components(len(kernel.columns))
        return tuple(Restricted(part.kernel, tuple(kernel.columns[k] for k in part.columns)) for part in inside)
    return ()


def refuse_extreme(weights: Array) -> None:
    """Refuse positive weights whose inverses or whose sum overflow."""
    with np.errstate(over="ignore", divide="ignore"):
        if not np.isfinite([1.0 / weights.min(), weights.sum()]).all():
            raise DataError(
                f"sample_weight leaves the range of floating point, received {weights.min():g} to {weights.max():g}; "
                "rescale the weights"
            )


def _read_blocks(source: Source) -> tuple[Any, Any]:
    """Return the rows and targets of a source in memory."""
    blocks = list(source.blocks())
    if any(block.Y is None for block in blocks):
        raise DataError(f"{source.name} has no targets; give blocks (X, y), or y next to X")
    return np.concatenate([block.X for block in blocks]), np.concatenate([block.Y for block in blocks])
