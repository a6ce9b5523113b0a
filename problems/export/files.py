"""``to_onnx``: a fitted model as a file that does not need this package.

The file states how far its outputs may be from the exact formula of the model, for all rows of a box, with every
rounding counted (:mod:`substrate.kernels.rounding_bound`).
"""

import json
import math
import os
from dataclasses import dataclass
from typing import Any

from problems.export.described import describe
from substrate import __version__
from substrate.arrays import positive
from substrate.errors import DataError, DeclarationError
from substrate.kernels.nodes import NodeProgram
from substrate.kernels.onnx_graph import import_onnx, write_onnx
from substrate.kernels.rounding_bound import DOUBLE, SINGLE, RoundingBound
from substrate.whole_file import writable_file, written_whole

__all__ = ["Export", "to_onnx"]

#: The loss of single precision that is accepted unless one is given, as a share of the spread of the outputs.
_SHARE = 1e-3
_PRECISIONS = ("auto", "float32", "float64")


@dataclass(frozen=True, slots=True)
class Export:
    """A model as the contents of a file, with a bound on its rounding.

    Attributes
    ----------
    content : bytes
        What was written.
    precision : str
        ``"float32"`` or ``"float64"``, for inputs and kernel values; sums are in double precision.
    bound : RoundingBound
        How far the outputs of the machine may be from the exact formula, in ``bound.box``.
    outputs : tuple of str
        The names of the outputs.
    """

    content: bytes
    precision: str
    bound: RoundingBound
    outputs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.precision}, outputs {', '.join(self.outputs)}; {_promise(self.bound)}"


def to_onnx(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    tol: float | None = None,
    precision: str = "auto",
    probabilities: bool = True,
    box: Any = None,
) -> Export:
    """Return a fitted model as an ONNX graph, and write it to ``path``; needs the extra ``[onnx]``.

    The graph has one input, ``X``, rows of all columns as the model takes them, and the output ``prediction``
    of a regressor, or ``label``, ``scores`` and ``probabilities`` of a classifier: what ``predict``,
    ``decision_function`` and ``predict_proba`` return.

    Parameters
    ----------
    model
        A fitted regressor or classifier of :mod:`problems`.
    path
        The file, whole or absent; None returns the contents only.
    tol : float, default=None
        The largest loss that single precision may have, in the units of the prediction (of the decision value, for
        classes). None is a thousandth of the spread of the predictions at the support vectors.
    precision : {"auto", "float32", "float64"}, default="auto"
        ``"auto"`` is single precision where its proved loss is at most ``tol``, and double otherwise. In single
        precision the input, the support vectors and the kernel values are float32; the sum over the vectors, where
        terms cancel, and all that follows stay in double.
    probabilities : bool, default=True
        Whether a classifier with ``calibration="sigmoid"`` has them.
    box : array of shape (n_features, 2), default=None
        Where the loss is bounded: lower and upper ends of every input. None is the box of the support vectors.
    """
    if path is not None:
        writable_file(path)  # refused before any work
    if precision not in _PRECISIONS:
        raise DeclarationError(f"precision must be one of {', '.join(_PRECISIONS)}, received {precision!r}")
    limit = None if tol is None else positive(tol, "tol")
    import_onnx()
    described = describe(model, probabilities=probabilities, box=box)
    single = None if precision == "float64" else described.bound(SINGLE)
    accepted = _SHARE * described.spread if limit is None else limit
    is_single = single is not None and (precision == "float32" or single.loss <= accepted)
    bound = single if is_single and single is not None else described.bound(DOUBLE)
    _refuse_unbounded(bound)
    arithmetic = SINGLE if is_single else DOUBLE
    notes = {"model": described.title, "promise": _promise(bound), "inputs": json.dumps(described.names)}
    notes |= {"loss": repr(bound.loss), "box": json.dumps(bound.box.tolist()), "package": f"{__version__}"}
    program = NodeProgram(len(described.names), described.outputs)
    content: bytes = write_onnx(program, arithmetic, described.title, notes).SerializeToString()
    if path is not None:
        with written_whole(path) as stream:
            stream.write(content)
    return Export(content, arithmetic.name, bound, tuple(output.name for output in described.outputs))


def _promise(bound: RoundingBound) -> str:
    return (
        f"For all inputs of the box the outputs of the machine are within {bound.loss:.2e} of the exact formula, "
        "all rounding counted, if exp and pow are accurate to 4 units of the last place."
    )


def _refuse_unbounded(bound: RoundingBound) -> None:
    """Refuse a formula whose rounding is not bounded."""
    if math.isinf(bound.loss):
        what = "float32 cannot represent its numbers, or confuses them; take precision='float64'"
        if bound.arithmetic == DOUBLE.name:
            what = "a number may overflow; scale the columns"
        raise DataError(f"the rounding of this formula in the box cannot be bounded: {what}")
