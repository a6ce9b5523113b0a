"""A program as a graph of ONNX, which onnxruntime evaluates without this package.

Rows are the first axis of every tensor: an operation of a row is a column, one inside the sum over m points a matrix of
m columns, and the sum a product with the coefficients. In single precision the inputs, the points and all that is
inside a sum are float32; the sums, whose terms cancel, and what follows are float64.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from substrate.errors import DataError
from substrate.kernels.nodes import Node, NodeProgram, Output, order_nodes
from substrate.kernels.rounding_bound import Arithmetic, places_of

__all__ = ["INPUT", "evaluate_onnx", "import_onnx", "write_onnx"]

#: The name of the input of every graph.
INPUT = "X"
#: The versions of the operators and of the file format, both from 2022, which all runtimes of today read.
_OPERATORS, _FORMAT = 17, 8
#: Operations that have another name in ONNX.
_NAMES: Mapping[str, str] = {
    "add": "Add",
    "multiply": "Mul",
    "divide": "Div",
    "negative": "Neg",
    "absolute": "Abs",
    "exponential": "Exp",
    "root": "Sqrt",
    "power": "Pow",
    "maximum": "Max",
    "greater": "Greater",
    "select": "Where",
}


def import_onnx() -> Any:
    """Return the library, or raise an error with the command that installs it."""
    try:
        import onnx
        import onnx.helper
        import onnx.numpy_helper
    except ImportError as error:
        raise DataError('to_onnx needs onnx: pip install "lssvm-substrate[onnx]"') from error
    return onnx


def write_onnx(program: NodeProgram, arithmetic: Arithmetic, name: str, notes: Mapping[str, str]) -> Any:
    """Return the graph as a model of ONNX; ``notes`` are kept in its metadata."""
    onnx = import_onnx()
    writer = _Writer(program, arithmetic, onnx)
    results = [writer.write_output(output) for output in program.outputs]
    source = onnx.helper.make_tensor_value_info(INPUT, writer.type_of(arithmetic.inside), [None, program.n_inputs])
    graph = onnx.helper.make_graph(writer.nodes, name, [source], results, writer.tensors)
    model = onnx.helper.make_model(
        graph,
        producer_name="lssvm-substrate",
        opset_imports=[onnx.helper.make_opsetid("", _OPERATORS)],
        ir_version=_FORMAT,
        doc_string="; ".join(f"{key}: {value}" for key, value in notes.items()),
    )
    onnx.helper.set_model_props(model, dict(notes))
    onnx.checker.check_model(model)
    return model


def evaluate_onnx(model: Any, X: Any) -> dict[str, Any]:
    """Return the outputs of a model of ONNX at rows, operation by operation as its standard says, by numpy."""
    from onnx.reference import ReferenceEvaluator

    with np.errstate(all="ignore"):
        values = ReferenceEvaluator(model).run(None, {INPUT: X})
    return {output.name: value for output, value in zip(model.graph.output, values, strict=True)}


class _Writer:
    """The nodes and tensors of a graph, each operation once for every format that it is needed in."""

    def __init__(self, program: NodeProgram, arithmetic: Arithmetic, onnx: Any) -> None:
        self.arithmetic, self.onnx = arithmetic, onnx
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []
        self._names: dict[tuple[Node, Any], str] = {}
        self._count = 0
        roots = [node for output in program.outputs for node in output.nodes]
        order = order_nodes(roots)
        wanted = places_of(order, roots)
        for node in order:
            for form in {
                getattr(arithmetic, place).type: getattr(arithmetic, place) for place in wanted[node]
            }.values():
                inner = arithmetic.inside if node.operation == "total" else form
                operands = [self._names[operand, inner.type] for operand in node.operands]
                self._names[node, form.type] = self._write(node, operands, form)
        # the shape of one column: the number of rows, and one
        unit = self._tensor(np.array([1], dtype=np.int64))
        self._one_column = self._add("Concat", [self._add("Shape", [INPUT], start=0, end=1), unit], axis=0)

    def type_of(self, form: Any) -> int:
        """Return the type of a tensor of a format."""
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(form.type)))

    def write_output(self, output: Output) -> Any:
        """Write an output of the nodes, and return its description."""
        helper, doubles = self.onnx.helper, self.arithmetic.outside
        # every row has its answer, also where it does not depend on the inputs
        columns = [self._add("Expand", [self._names[node, doubles.type], self._one_column]) for node in output.nodes]
        joined = columns[0] if len(columns) == 1 else self._add("Concat", columns, axis=1)
        kind = self.type_of(doubles)
        if output.labels is not None:
            labels = self._labels(output.labels)
            indices = self._add("Cast", [joined], to=self.onnx.TensorProto.INT64)
            joined = self._add("Gather", [self._tensor(labels), indices], axis=0)
            kind = int(helper.np_dtype_to_tensor_dtype(labels.dtype)) if labels.dtype != object else 8
        shape = self._tensor(np.array([-1, *output.shape], dtype=np.int64))
        self.nodes.append(helper.make_node("Reshape", [joined, shape], [output.name]))
        return helper.make_tensor_value_info(output.name, kind, [None, *output.shape])

    def _labels(self, labels: Any) -> Any:
        """Return labels as ONNX holds them: texts, whole numbers, truth values or numbers."""
        if labels.dtype.kind in "OU":
            return np.array([str(label) for label in labels], dtype=object)
        return labels.astype(np.int64) if labels.dtype.kind in "iu" else labels

    def _write(self, node: Node, operands: Sequence[str], form: Any) -> str:
        operation, value = node.operation, node.value
        if operation == "input":
            column = self._add("Gather", [INPUT, self._tensor(np.array([value], dtype=np.int64))], axis=1)
            return column if form is self.arithmetic.inside else self._cast(column, form)
        if operation == "constant":
            return self._tensor(np.array([[value]], dtype=form.type))
        if operation == "coordinate":
            return self._tensor(np.ascontiguousarray(node.points[None, :, value], dtype=form.type))
        if operation == "total":
            terms = operands[0] if self.arithmetic.inside.type is form.type else self._cast(operands[0], form)
            # not MatMul: onnxruntime moves a factor before or after it into an attribute, which is a float32
            return self._add("Gemm", [terms, self._tensor(value[:, None].astype(form.type))])
        if operation == "differs":
            return self._cast(self._add("Not", [self._add("Equal", operands)]), form)
        return self._add(_NAMES[operation], operands)

    def _cast(self, name: str, form: Any) -> str:
        return self._add("Cast", [name], to=self.type_of(form))

    def _add(self, operator: str, operands: Sequence[str], **options: Any) -> str:
        self._count += 1
        name = f"t{self._count}"
        self.nodes.append(self.onnx.helper.make_node(operator, list(operands), [name], **options))
        return name

    def _tensor(self, values: Any) -> str:
        self._count += 1
        name = f"c{self._count}"
        self.tensors.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name
