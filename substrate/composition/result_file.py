"""Results as files: the expansion of every substrate, the outputs and the certificate, written and read without pickle.

The format is that of model files (:mod:`substrate.archive`): nothing of a file is executed. What is a function of the
user's own cannot be in one: a kernel that is a function, the features of a linear part, the coefficients and maps of a
linear operator. The machine itself, its terms and constraints, is not saved; what it found is.
"""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from substrate.archive import Archive, read_archive, write_archive
from substrate.arrays import Array, is_sparse
from substrate.certificates import Certificate, Row
from substrate.composition.level import Substrate
from substrate.composition.linear_operators import (
    BoxIntegral,
    Functional,
    LinearOperator,
    MeasureIntegral,
    OperatorTerm,
)
from substrate.composition.measures import Measure
from substrate.composition.outputs import Outputs
from substrate.composition.result import Further, KernelExpansion, Result
from substrate.composition.terms import Column, FittedPart, FittedTerm, LinearPart, One, WeightedTerm, take_ones
from substrate.encoding import Arrays, bytes_needed, check_kernels, decode, encode
from substrate.errors import DataError, ModelFileWarning, SubstrateError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.solvers import Attempt, SolverRecord

__all__ = ["SavedSubstrate", "load_result", "load_results", "save_result", "save_results"]

_KIND = "result of a machine"
#: Letters of a message that a file can choose.
_LONGEST = 500


class SavedSubstrate(Substrate):
    """A substrate as a file has it: kernel, rows and targets; the kernel matrix is made where it is used."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        kernel, X, y = fields["kernel"], fields["X"], fields["y"]
        if not isinstance(kernel, Kernel):
            raise DataError(f"the kernel of a substrate is a {type(kernel).__name__}")
        if getattr(X, "ndim", 0) != 2 or X.dtype.kind != "f" or X.shape[0] < 1:
            raise DataError("the rows of a substrate must be an array of numbers")
        if y is not None and (not isinstance(y, np.ndarray) or y.dtype.kind != "f" or y.ndim not in (1, 2)):
            raise DataError("the targets of a substrate must be an array of numbers")
        if y is not None and y.shape[0] != X.shape[0]:
            raise DataError(f"a substrate has {X.shape[0]} rows and targets of shape {y.shape}")
        targets = fields["targets"]
        if targets is not None and (
            not isinstance(targets, np.ndarray) or targets.dtype.kind != "f" or targets.ndim not in (1, 2)
        ):
            raise DataError("the observations of a substrate must be an array of numbers")
        if y is None and fields["task"] == "classification":
            raise DataError("a substrate of labels has none")
        basis = fields["basis"]
        if basis is not None and (getattr(basis, "ndim", 0) != 2 or basis.shape[1] != X.shape[1]):
            raise DataError("the basis of a substrate has other columns than its rows")
        if fields["task"] not in ("regression", "classification") or not isinstance(fields["bias"], bool):
            raise DataError("a substrate states no task, or no bias")
        names = fields["column_names"]
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
            raise DataError("the names of the columns of a substrate are no texts")
        name = fields["name"]
        if name is not None and not isinstance(name, str):
            raise DataError("the name of a substrate is no text")
        self.name, self.column_names = name, names
        self.kernel, self.X, self.y, self.basis = kernel, X, y, basis
        self.task, self.bias = str(fields["task"]), bool(fields["bias"])
        self.cutoff, self.ridge, self.span, self.described = None, 0.0, "mentioned", ""
        self._gram: Gram | None = None
        self._rows: Array | None = None
        self._holders = []
        self._latest = None
        self.observed, self._errors = None, None
        #: The targets of all observations, where these are not the values at X.
        self.targets = y if targets is None else targets

    @property
    def columns(self) -> tuple[int, ...]:
        """The number of columns of the targets as a shape."""
        return () if self.targets is None else tuple(self.targets.shape[1:])

    @property
    def gram(self) -> Gram:  # type: ignore[override]
        """The Gram matrix, made where it is asked for."""
        if self._gram is None:
            self._gram = Gram.of(self.kernel, self.X if self.basis is None else self.basis)
        return self._gram


def save_result(result: Result, path: str | os.PathLike[str]) -> None:
    """Write a result; the file is read back before it appears, and what cannot be loaded is not saved."""
    save_results((result,), {}, path)


def save_results(results: Sequence[Result], notes: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write several results, with plain values, arrays and kernels by name."""
    arrays: Arrays = {}
    content = {
        "kind": _KIND,
        "results": [_tree(result, f"result{k}", arrays) for k, result in enumerate(results)],
        "notes": {name: encode(value, f"notes.{name}", arrays) for name, value in notes.items()},
    }

    def check(archive: Archive) -> None:
        try:
            _read(archive, path)
        except SubstrateError as error:
            raise DataError(f"this result is not saved, because {path} could not be loaded again: {error}") from error

    write_archive(path, content, arrays, check)


def _tree(result: Result, name: str, arrays: Arrays) -> dict[str, Any]:
    substrates = [expansion.substrate for expansion in result.expansions]
    return {
        "objective": float(result.objective),
        "task": result.task,
        "parameters": encode(dict(result.parameters), f"{name}.parameters", arrays),
        "certificate": encode(result.certificate, f"{name}.certificate", arrays),
        "attempts": [list(_fields_of(attempt)) for attempt in result.solver_record.attempts],
        "expansions": [_write_expansion(e, f"{name}.expansion{k}", arrays) for k, e in enumerate(result.expansions)],
        "outputs": [
            [output, [_write_term(term, substrates, f"{name}.output{k}.{j}", arrays) for j, term in enumerate(terms)]]
            for k, (output, terms) in enumerate(result.fitted.items())
        ],
    }


def load_result(path: str | os.PathLike[str], max_bytes: float | None = None) -> Result:
    """Read a result back; a damaged, foreign or hostile file is refused and nothing of it is executed.

    Parameters
    ----------
    path
        A file written by :meth:`~substrate.Result.save`. One that was changed since it was written loads with a
        :class:`~substrate.errors.ModelFileWarning`, and its certificate does not hold.
    max_bytes
        The memory that it may use, added up before anything is allocated; None is 1 GiB, or four times the size of
        the file if that is more.
    """
    results, _ = load_results(path, max_bytes)
    if len(results) != 1:
        raise DataError(f"{path} has {len(results)} results, of an estimator of several machines; load it by its class")
    return results[0]


def load_results(
    path: str | os.PathLike[str], max_bytes: float | None = None
) -> tuple[tuple[Result, ...], dict[str, Any]]:
    """Read all results of a file, and what was written beside them."""

    def plan(content: dict[str, Any], names: set[str]) -> int:
        if content.get("kind") != _KIND:
            raise DataError(f"{path} is no result of a machine; a model is read by problems.load")
        try:
            return bytes_needed((content.get("results"), content.get("notes")), names, None)
        except DataError as error:
            raise DataError(f"{path} is refused: {error}") from error

    archive = read_archive(path, max_bytes, plan)
    results, notes = _read(archive, path)
    if archive.as_written:
        return results, notes
    warnings.warn(
        f"{path} was changed after it was written (its digest does not fit), so its certificate is not its own and "
        "does not hold; solve the machine again, or save it again from its source",
        ModelFileWarning,
        stacklevel=3,
    )
    changed = Row(
        name="file as written",
        value=float("inf"),
        scale=1.0,
        tolerance=0.0,
        formula="digest of the contents = digest in the file",
    )
    for result in results:
        object.__setattr__(result, "certificate", result.certificate.extended(changed))
    return results, notes


def _read(archive: Archive, path: str | os.PathLike[str]) -> tuple[tuple[Result, ...], dict[str, Any]]:
    try:
        results = tuple(_result(tree, archive.arrays) for tree in archive.content["results"])
        return results, {name: decode(value, archive.arrays) for name, value in archive.content["notes"].items()}
    except SubstrateError as error:
        raise DataError(f"{path} is refused: {str(error)[:_LONGEST]}") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise DataError(f"{path} does not describe a result of a machine: {error!r}"[:_LONGEST]) from error


def _result(tree: Any, arrays: Arrays) -> Result:
    expansions = tuple(_read_expansion(entry, arrays) for entry in tree["expansions"])
    certificate, parameters = decode(tree["certificate"], arrays), decode(tree["parameters"], arrays)
    if not isinstance(certificate, Certificate) or not isinstance(parameters, dict):
        raise DataError("it lacks the certificate or the parameters")
    task = tree["task"]
    if task not in (None, "regression", "classification"):
        raise DataError("it states a task that there is not")
    outputs = {}
    for name, terms in tree["outputs"]:
        if name is not None and not isinstance(name, str):
            raise DataError("an output has a name that is no text")
        outputs[name] = tuple(_read_term(term, expansions, arrays) for term in terms)
    result = Result(
        objective=float(tree["objective"]),
        parameters=parameters,
        expansions=expansions,
        certificate=certificate,
        solver_record=SolverRecord(tuple(_attempt(*entry) for entry in tree["attempts"])),
        outputs=Outputs({}),
        task=task,
    )
    object.__setattr__(result, "fitted", outputs)
    for terms in outputs.values():  # one row, so that what is inconsistent is refused now
        for term in terms:
            if isinstance(term, KernelExpansion):
                term.predict(_first_row(term.substrate))
    return result


def _first_row(substrate: Substrate) -> Any:
    row = substrate.X[:1]
    return row.toarray() if is_sparse(row) else row


def _fields_of(attempt: Attempt) -> Iterator[Any]:
    yield from (attempt.solver, attempt.status, float(attempt.unit), float(attempt.worst), bool(attempt.accepted))
    yield float(attempt.seconds)


def _attempt(solver: Any, status: Any, unit: Any, worst: Any, accepted: Any, seconds: Any) -> Attempt:
    if not isinstance(solver, str) or not isinstance(status, str) or not isinstance(accepted, bool):
        raise DataError("an attempt of a solver is described badly")
    return Attempt(
        solver=solver, status=status, unit=float(unit), worst=float(worst), accepted=accepted, seconds=float(seconds)
    )


def _targets_of(substrate: Substrate) -> Array | None:
    """Return the targets of all observations; None where these are the values at X."""
    if isinstance(substrate, SavedSubstrate):
        return None if substrate.targets is substrate.y else substrate.targets
    return None if substrate.observed is None else substrate.observed.targets


def _write_expansion(expansion: KernelExpansion, name: str, arrays: Arrays) -> dict[str, Any]:
    s = expansion.substrate
    values = {
        "kernel": s.kernel,
        "X": s.X,
        "y": s.y,
        "targets": _targets_of(s),
        "basis": s.basis,
        "task": s.task,
        "bias": s.bias,
        "name": s.name,
        "column_names": s.column_names,
        "alpha": expansion.alpha,
        "b": np.asarray(expansion.b, dtype=np.float64),
        "e": expansion.e,
        "f": expansion.f,
        "squared_norm": float(expansion.squared_norm),
        "maximal_variation": expansion.maximal_variation,
    }
    written = {key: encode(value, f"{name}.{key}", arrays) for key, value in values.items()}
    written["further"] = [
        {
            "points": encode(part.points, f"{name}.further{k}.points", arrays),
            "coefficients": encode(part.coefficients, f"{name}.further{k}.coefficients", arrays),
            "part": part.part,
            "operator": _write_operator(part.operator, f"{name}.further{k}", arrays),
        }
        for k, part in enumerate(expansion.further)
    ]
    return written


def _write_operator(operator: Functional | None, name: str, arrays: Arrays) -> Any:
    if operator is None:
        return None
    if isinstance(operator, BoxIntegral):
        return "integral"
    if isinstance(operator, MeasureIntegral):
        return {
            "measures": [
                {
                    "boxes": encode(measure.boxes, f"{name}.measure{k}.boxes", arrays),
                    "weights": encode(measure.weights, f"{name}.measure{k}.weights", arrays),
                }
                for k, measure in enumerate(operator.measures)
            ],
        }
    if not isinstance(operator, LinearOperator):
        raise DataError(
            f"a machine with a {type(operator).__name__} in it cannot be saved; integrate over boxes, or keep the "
            "program that builds the machine"
        )
    if any(term.at is not None or any(map(callable, term.coefficients)) for term in operator.terms):
        raise DataError(
            "a linear operator with functions in it cannot be saved, since no function is; use operators with numbers "
            "as coefficients, or keep the program that builds the machine"
        )
    return [
        [[[int(column), int(order)] for column, order in term.orders], [_number(c) for c in term.coefficients]]
        for term in operator.terms
    ]


def _number(coefficient: Any) -> float:
    return float(coefficient)


def _read_operator(written: Any, columns: int, arrays: Arrays) -> Functional | None:
    if written is None:
        return None
    if written == "integral":
        return BoxIntegral()
    if isinstance(written, dict):
        return _read_measures(written, columns, arrays)
    terms = []
    for orders, coefficients in written:
        if not all(type(column) is int and type(order) is int for column, order in orders):
            raise DataError("the orders of a derivative are no whole numbers")
        terms.append(OperatorTerm(tuple((c, o) for c, o in orders), tuple(float(c) for c in coefficients)))
    return LinearOperator(tuple(terms))


def _read_measures(written: Any, columns: int, arrays: Arrays) -> MeasureIntegral:
    measures = []
    for entry in written["measures"]:
        boxes, weights = decode(entry["boxes"], arrays), decode(entry["weights"], arrays)
        if boxes.ndim != 3 or boxes.shape[1:] != (columns, 2) or weights.shape != boxes.shape[:1]:
            raise DataError(f"a measure has boxes of shape {boxes.shape} and weights of shape {weights.shape}")
        if boxes.dtype.kind != "f" or weights.dtype.kind != "f" or not np.isfinite(boxes).all():
            raise DataError("a measure has numbers that are none")
        measures.append(Measure(boxes, weights))
    return MeasureIntegral(tuple(measures))


def _read_expansion(written: Any, arrays: Arrays) -> KernelExpansion:
    values = {key: decode(value, arrays) for key, value in written.items() if key != "further"}
    check_kernels((values["kernel"],), values["X"].shape[1])
    substrate = SavedSubstrate(values)
    n, columns = substrate.n, substrate.columns
    errors = (n, *columns) if substrate.targets is None else substrate.targets.shape
    shapes = {"alpha": (substrate.size, *columns), "e": errors, "f": (n, *columns), "b": columns}
    for key, shape in shapes.items():
        if values[key].shape != shape or values[key].dtype.kind != "f":
            raise DataError(f"{key} of a substrate has shape {values[key].shape}, expected {shape}")
    further = []
    for entry in written["further"]:
        points, coefficients = decode(entry["points"], arrays), decode(entry["coefficients"], arrays)
        part = entry["part"]
        if points is not None and (points.ndim != 2 or points.shape[0] != coefficients.shape[0]):
            raise DataError("further coefficients do not belong to their points")
        if part is not None and (type(part) is not int or not 0 <= part < len(substrate.components)):
            raise DataError(f"there is no component {part!r}")
        operator = _read_operator(entry["operator"], substrate.X.shape[1], arrays)
        further.append(Further(points, coefficients, part, operator))
    return KernelExpansion(
        substrate=substrate,
        alpha=values["alpha"],
        b=values["b"] if columns else float(values["b"]),
        e=values["e"],
        f=values["f"],
        squared_norm=float(values["squared_norm"]),
        maximal_variation=values["maximal_variation"],
        further=tuple(further),
    )


def _write_term(term: Any, substrates: list[Substrate], name: str, arrays: Arrays) -> Any:
    if isinstance(term, KernelExpansion):
        return next(k for k, s in enumerate(substrates) if s is term.substrate)
    if isinstance(term, One):
        return "one"
    if isinstance(term, FittedTerm):
        weighted = term.term
        if not all(isinstance(multiplier, Column) for multiplier in weighted.multipliers):
            raise DataError(
                "an output with a function of X as its factor cannot be saved, since no function is; multiply by "
                "Column(number)"
            )
        return {
            "factor": float(weighted.factor),
            "multipliers": [int(column.number) for column in weighted.multipliers if isinstance(column, Column)],
            "columns": None if weighted.columns is None else [int(c) for c in weighted.columns],
            "base": _write_term(term.fitted, substrates, name, arrays),
        }
    if not isinstance(term, FittedPart):
        raise DataError(f"an output with a {type(term).__name__} cannot be saved; predict substrates and linear parts")
    if term.part.features is not None and term.part.features is not take_ones:
        raise DataError(
            "a linear part with a function of X as its features cannot be saved, since no function is; give it columns"
        )
    weights = encode(np.asarray(term.weights), name, arrays)
    if term.part.features is take_ones:
        return {"columns": "ones", "weights": weights}
    columns = None if term.part.columns is None else [int(c) for c in np.atleast_1d(np.asarray(term.part.columns))]
    return {"columns": columns, "weights": weights}


def _read_term(
    written: Any, expansions: tuple[KernelExpansion, ...], arrays: Arrays
) -> KernelExpansion | FittedPart | FittedTerm | One:
    if type(written) is int:
        if not 0 <= written < len(expansions):
            raise DataError(f"there is no substrate {written}")
        return expansions[written]
    if written == "one":
        return One()
    if "base" in written:
        base = written["base"]
        if isinstance(base, dict) and "base" in base:
            raise DataError("a weighted term of an output is one of a weighted term")
        term = WeightedTerm(
            One(),
            float(written["factor"]),
            tuple(Column(number) for number in _whole_numbers(written["multipliers"], "factors")),
            None if written["columns"] is None else tuple(_whole_numbers(written["columns"], "columns")),
        )
        return FittedTerm(term, _read_term(base, expansions, arrays))
    import cvxpy as cp

    weights, columns = decode(written["weights"], arrays), written["columns"]
    if columns == "ones":
        return FittedPart(LinearPart(cp.Variable(weights.shape), features=take_ones), weights)
    chosen = None if columns is None else _whole_numbers(columns, "columns of a linear part")
    return FittedPart(LinearPart(cp.Variable(weights.shape), chosen), weights)


def _whole_numbers(written: Any, called: str) -> list[int]:
    if not isinstance(written, list) or not all(type(number) is int and number >= 0 for number in written):
        raise DataError(f"the {called} are no whole numbers")
    return written


Result._writer = staticmethod(save_result)
