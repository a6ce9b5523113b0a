"""scikit-learn estimators around a function that builds a machine: for pipelines, grids of parameters, and files."""

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_regressor
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from problems.estimators.shared.coded import Coding, winners
from substrate import Machine
from substrate.arrays import Array
from substrate.certificate import Certificate
from substrate.errors import DeclarationError
from substrate.files import save

__all__ = ["MachineClassifier", "MachineRegressor"]


@dataclass(eq=False, repr=False)
class _MachineEstimator(BaseEstimator):
    """A base of both estimators: the function, its parameters by name, solving, and files."""

    build: Callable[..., Any] | None = None
    parameters: Mapping[str, Any] | None = None
    _: KW_ONLY
    solver: str | None = None
    time_limit: float | None = None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; parameters of the function are named ``parameters__name``."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep:
            given = self.parameters if isinstance(self.parameters, Mapping) else {}
            params |= {f"parameters__{name}": value for name, value in given.items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``parameters__C=2.0`` sets the parameter C of the function."""
        nested = {name: value for name, value in params.items() if name.startswith("parameters__")}
        super().set_params(**{name: value for name, value in params.items() if name not in nested})
        if nested:
            values = {name.removeprefix("parameters__"): value for name, value in nested.items()}
            self.parameters = {**(self.parameters or {}), **values}
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "results_")

    @property
    def result_(self) -> Any:
        """The result of the machine, where there is one."""
        check_is_fitted(self)
        if len(self.results_) != 1:
            raise AttributeError(f"there are {len(self.results_)} machines, one per class; see results_")
        return self.results_[0]

    @property
    def certificate_(self) -> Certificate:
        """The certificate of the machine; of several machines, the one nearest to failing."""
        check_is_fitted(self)
        certificates = [result.certificate for result in self.results_]
        shares = [max(row.relative / (row.tolerance or 1.0) for row in c.rows) for c in certificates]
        return certificates[int(np.argmax(shares))]

    def _solve(self, X: Any, y: Array) -> Any:
        """Build the machine of these rows and return its result."""
        if not callable(self.build):
            raise DeclarationError(
                f"{type(self).__name__} needs build=, a function of (X, y, ...) that returns a Machine; received "
                f"{self.build!r}. An estimator that was loaded from a file predicts and is not fitted again, since no "
                "function is in a file"
            )
        if self.parameters is not None and not isinstance(self.parameters, Mapping):
            raise DeclarationError(f"parameters must be a mapping from names to values, received {self.parameters!r}")
        given = dict(self.parameters or {})
        names = inspect.signature(self.build).parameters
        takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in names.values())
        accepted = {name: value for name, value in given.items() if takes_all or name in names}
        machine = self.build(X, y, **accepted)
        if not isinstance(machine, Machine):
            raise DeclarationError(f"build must return a Machine, received {type(machine).__name__}")
        tasks = {machine.task, *(s.task for s in machine.substrates)}
        if is_regressor(self) and "classification" in tasks:
            raise DeclarationError(
                "the machine that was built has classes, and a regressor would score its labels as numbers; use "
                "MachineClassifier"
            )
        others = {name: value for name, value in given.items() if name not in accepted}
        result = machine.solve(self.solver, time_limit=self.time_limit, **others)
        values = result.predict(X[:1])
        if isinstance(values, dict) or np.shape(values) != (1,):
            outputs = sorted(values) if isinstance(values, dict) else np.shape(values)[1:]
            raise DeclarationError(
                f"an estimator predicts one number per row, and the machine that was built has the outputs {outputs}; "
                "say predict= one of them"
            )
        return result

    def _values(self, X: Any) -> list[Array]:
        """Return the values of every machine at the rows of X."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return [np.asarray(result.predict(X)) for result in self.results_]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted machines to a file that :func:`problems.load` reads back; no pickle, nothing executed.

        The expansions, the certificates and ``parameters`` are saved. The function is not: the estimator that is
        loaded predicts, and is not fitted again.
        """
        check_is_fitted(self)
        save(self, path)


class MachineRegressor(RegressorMixin, _MachineEstimator):
    """A regressor around a function that builds a machine.

    Parameters
    ----------
    build : callable
        A function of ``(X, y, ...)`` that returns a :class:`~substrate.Machine`: its training rows, its targets, and
        some of ``parameters`` by name. It must be one that pickle finds, as all parameters of scikit-learn, where the
        estimator is pickled or fitted in other processes.
    parameters : dict, default=None
        Values by name: the parameters of ``build`` go to it, the others to ``Machine.solve``, as the values of
        ``cvxpy.Parameter`` of that name. A grid names them ``parameters__C``.
    solver : str, default=None
        As in ``Machine.solve``.
    time_limit : float, default=None
        Seconds for each solution, as in ``Machine.solve``.

    Attributes
    ----------
    result_ : Result
        The solution, with its expansion and its certificate.
    certificate_ : Certificate
        The certificate of the solution.
    n_features_in_ : int
        The number of columns.

    Examples
    --------
    >>> import cvxpy as cp
    >>> from problems import MachineRegressor
    >>> from substrate import Machine, Substrate
    >>> from substrate.datasets import motorcycle
    >>> from substrate.kernels import RBF
    >>> def build(X, y, sigma=10.0, C=10.0):
    ...     s = Substrate(RBF(sigma), X, y)
    ...     return Machine(s, minimize=0.5 * s.squared_norm + C * cp.sum(cp.abs(s.e)))
    >>> X, y = motorcycle()
    >>> model = MachineRegressor(build, {"C": 1.0}).fit(X, y)
    >>> bool(model.certificate_.holds)
    True
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Build the machine of these rows and solve it."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        self.results_ = (self._solve(X, np.asarray(y, dtype=np.float64)),)
        return self

    def predict(self, X: Any) -> Array:
        """Return the values of the machine at the rows of X."""
        return self._values(X)[0]


class MachineClassifier(ClassifierMixin, _MachineEstimator):
    """A classifier around a function that builds a machine for labels -1 and +1; one machine per class where there are
    more than two, each against the others.

    Parameters
    ----------
    build : callable
        A function of ``(X, y, ...)`` that returns a :class:`~substrate.Machine`: its training rows, labels -1.0 and
        +1.0, and some of ``parameters`` by name. It must be one that pickle finds, as all parameters of scikit-learn,
        where the estimator is pickled or fitted in other processes.
    parameters, solver, time_limit
        As for :class:`MachineRegressor`.

    Attributes
    ----------
    classes_ : array
        The labels.
    results_ : tuple of Result
        The solutions: one for two classes, one per class for more.
    certificate_ : Certificate
        The certificate of the solution that is nearest to failing.
    n_features_in_ : int
        The number of columns.

    Examples
    --------
    >>> import cvxpy as cp
    >>> import numpy as np
    >>> from problems import MachineClassifier
    >>> from substrate import Machine, Substrate
    >>> from substrate.kernels import RBF
    >>> def build(X, y, C=1.0):
    ...     s = Substrate(RBF(1.0), X, y, task="classification")
    ...     return Machine(s, minimize=0.5 * s.squared_norm + C * cp.sum(cp.pos(s.e)))
    >>> X = np.array([[0.0], [0.5], [2.0], [2.5]])
    >>> model = MachineClassifier(build).fit(X, ["low", "low", "high", "high"])
    >>> print(*model.predict([[0.1], [2.4]]))
    low high
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Build the machine of these rows, one per class where there are more than two, and solve it."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, ensure_min_samples=2)
        coded = Coding.of_labels(y, "one_vs_rest")
        results = tuple(self._solve(X, codes) for codes in np.ascontiguousarray(coded.codes(y).T))
        self.classes_ = coded.names
        self.results_ = results
        return self

    def decision_function(self, X: Any) -> Array:
        """Return the value of the machine at the rows of X, or of each machine, one column per class."""
        values = self._values(X)
        return values[0] if len(values) == 1 else np.column_stack(values)

    def predict(self, X: Any) -> Any:
        """Return the class of each row of X."""
        check_is_fitted(self)
        return self.classes_[winners(self.decision_function(X))]
