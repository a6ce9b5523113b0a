"""A fitted model as one formula: its inputs, the machine, and the classes and probabilities that follow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from problems.estimators.shared.base import KernelEstimator
from problems.estimators.shared.classifier import Classifier, probability_maps
from problems.estimators.shared.regressor import Regressor
from problems.export.decisions import decide, express_probabilities, score_classes
from substrate.arrays import Array, is_device_array, is_sparse, real_array
from substrate.errors import DataError, DeclarationError
from substrate.kernels.nodes import Node, NodeProgram, Output, inputs
from substrate.kernels.onnx_graph import evaluate_onnx, write_onnx
from substrate.kernels.rounding_bound import DOUBLE, Arithmetic, RoundingBound, bound_rounding

__all__ = ["Description", "describe"]

#: Rows at which the formula is compared with the model before it is written.
_COMPARED = 200
#: The share of the sizes of the terms up to which both agree, far above their roundings.
_AGREES = 1e-8
#: What to export in place of an estimator around another one, by its name.
_INSTEAD: Mapping[str, str] = {
    "NARXRegressor": "a forecast is run from window to window; export model.regressor_, the function of one window "
    "(less model.center_, over model.scale_), and keep the window yourself",
    "MachineRegressor": "its function has whatever terms the machine was composed of; export an LS-SVM of the package",
    "MachineClassifier": "its function has whatever terms the machine was composed of; export an LS-SVM of the package",
    "Pipeline": "its steps are not of this package; export its last step, and scale rows before the graph sees them",
}


@dataclass(frozen=True, eq=False)
class Description:
    """The formula of a fitted model.

    ``machine`` are its outputs, before classes are decided; ``outputs`` are what a program returns; ``box`` is where
    rounding is bounded, and ``spread`` is the spread of the outputs at the support vectors.
    """

    title: str
    names: tuple[str, ...]
    machine: tuple[Node, ...]
    outputs: tuple[Output, ...]
    box: Array
    spread: float

    def bound(self, arithmetic: Arithmetic) -> RoundingBound:
        """Bound the rounding of the machine's outputs in the box, for a given arithmetic."""
        outputs = Output("machine", self.machine, (len(self.machine),))
        return bound_rounding(NodeProgram(len(self.names), [outputs]), self.box, arithmetic)


def _refuse_model(model: Any) -> None:
    """Refuse a model that has no formula of its inputs, with advice."""
    name = type(model).__name__
    if name in _INSTEAD:
        raise DeclarationError(f"{name} has no formula to be exported: {_INSTEAD[name]}")
    if not isinstance(model, KernelEstimator):
        raise DeclarationError(
            f"models of this package are exported, regressors and classifiers of `problems`; received a {name}"
        )
    if not isinstance(model, (Regressor, Classifier)):
        raise DeclarationError(
            f"{name} finds components or clusters, and regressors and classifiers are exported; use its scores, "
            "transform(X), in Python"
        )
    check_is_fitted(model)
    if is_device_array(model.support_values_):
        raise DataError(f"this {name} is on a device; export model.to_numpy(), its copy in numpy")
    if model.kernel_.pairwise:
        raise DeclarationError(
            f"this {name} was fitted to a precomputed kernel matrix and knows no inputs; fit it to X with the kernel "
            "itself, from substrate.kernels"
        )


def _columns(model: Any, preparation: Any) -> tuple[tuple[str, ...], Array, Array]:
    """Return the names of the columns of X, what a preparation subtracts from each, and what it divides by."""
    if preparation is None:
        names = getattr(model, "feature_names_in_", [f"x{column}" for column in range(model.n_features_in_)])
        return tuple(map(str, names)), np.zeros(len(names)), np.ones(len(names))
    columns = [(name, entry) for entry in preparation.inputs for name in entry.features]
    center, scale = (np.array([getattr(entry, end) for _, entry in columns]) for end in ("center", "scale"))
    return tuple(name for name, _ in columns), center, scale


def _check_box(box: Any, model: Any, center: Array, scale: Array) -> Array:
    """Return a box that was given, or the box of the support vectors in the units of the inputs."""
    if box is None:
        points = model.support_vectors_
        if is_sparse(points):
            ends = [np.asarray(getattr(points, end)(axis=0).toarray()).ravel() for end in ("min", "max")]
        else:
            ends = [points.min(axis=0), points.max(axis=0)]
        return np.column_stack([end * scale + center for end in ends])
    ends_given = real_array(box, "box", ndim=2)
    if ends_given.shape != (model.n_features_in_, 2) or (ends_given[:, 0] > ends_given[:, 1]).any():
        raise DataError(
            f"box must have one line (lower, upper) for each of the {model.n_features_in_} inputs, the lower end "
            f"first; received an array of shape {ends_given.shape}"
        )
    return ends_given


def describe(model: Any, *, probabilities: bool = True, box: Any = None) -> Description:
    """Return the formula of a fitted model, compared with what the model itself predicts.

    ``probabilities`` adds the probabilities of a classifier that has them; ``box`` is where rounding is bounded, None
    for the box of the support vectors.
    """
    preparation = None
    if type(model).__name__ in ("TabularRegressor", "TabularClassifier"):
        check_is_fitted(model)
        model, preparation = model.estimator_, model.preparation_
    _refuse_model(model)
    names, center, scale = _columns(model, preparation)
    ends = _check_box(box, model, center, scale)
    x = [(value - m) / s for value, m, s in zip(inputs(len(names)), center, scale, strict=True)]
    machine = tuple(model._express(x))
    if isinstance(model, Classifier):
        outputs = _classes(model, machine, probabilities)
    else:
        outputs = [Output("prediction", machine, model._outputs())]
    return Description(
        title=type(model).__name__,
        names=names,
        machine=machine,
        outputs=tuple(outputs),
        box=ends,
        spread=_compare(model, machine, center, scale),
    )


def _classes(model: Any, machine: Sequence[Node], probabilities: bool) -> list[Output]:
    """Return label, scores and probabilities of a classifier."""
    scores = score_classes(machine, model.coding, model.code_book_)
    decided = decide(scores)
    shape = () if len(scores) == 1 else (len(scores),)
    outputs = [Output("label", (decided,), (), np.asarray(model.classes_)), Output("scores", tuple(scores), shape)]
    if probabilities and model.calibration is not None:
        try:
            maps = probability_maps(model.calibration_scores_, model.calibration)
        except DataError as error:
            raise DataError(f"{error}; or export without probabilities, probabilities=False") from error
        values = express_probabilities(maps, scores, decided)
        outputs.append(Output("probabilities", tuple(values), (len(values),)))
    return outputs


def _compare(model: Any, machine: Sequence[Node], center: Array, scale: Array) -> float:
    """Return the spread of the outputs at some support vectors, where the formula agrees with the model."""
    vectors = model.support_vectors_
    rows = vectors.shape[0]
    places = np.linspace(0, rows - 1, min(rows, _COMPARED)).astype(np.intp)
    scaled = vectors[places]
    given = scaled.toarray() if is_sparse(scaled) else scaled
    X = np.asarray(given * scale + center)
    box = np.column_stack([X.min(axis=0), X.max(axis=0)])
    program = NodeProgram(X.shape[1], [Output("machine", tuple(machine), (len(machine),))])
    values = evaluate_onnx(write_onnx(program, DOUBLE, "machine", {}), X)["machine"]
    expected = np.reshape(model._evaluate((X - center) / scale), values.shape)
    bound = bound_rounding(program, box, DOUBLE)
    sizes = np.maximum(np.abs(bound.lows), np.abs(bound.highs)) + np.asarray(bound.losses)
    if not (np.abs(values - expected) <= _AGREES * sizes).all():
        raise DeclarationError(
            f"the formula of this {type(model).__name__} differs from its predictions by "
            f"{np.max(np.abs(values - expected)):.1e}; it is not exported. Inputs of other units may help: scale "
            "the columns"
        )
    return float(np.min(np.std(expected[: places.size], axis=0)))
