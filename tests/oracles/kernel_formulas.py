"""The kernels that have a formula in exponentials, roots and powers, and expansions in them as programs."""

import pytest
from kernel_examples import EXAMPLES

from substrate.kernels import CurlFree, DivergenceFree, Foreign, Precomputed
from substrate.kernels.nodes import NodeProgram, Output, Points, inputs, kernel_formula, total
from substrate.kernels.onnx_graph import evaluate_onnx, write_onnx
from substrate.kernels.rounding_bound import DOUBLE

#: The kernels without a formula: given by values, and of vector fields.
WITHOUT = (Precomputed, Foreign, CurlFree, DivergenceFree)


def has_formula(kernel):
    inner = getattr(kernel, "kernel", None)
    return not (isinstance(kernel, WITHOUT) or isinstance(inner, WITHOUT))


EVERY = [example for examples in EXAMPLES.values() for example in examples]
WITH_FORMULA = [example for example in EVERY if has_formula(example.kernel)]


def expansion(kernel, Z, alpha):
    """Return sum_i alpha_i k(x, z_i) as a program."""
    points = Points(Z)
    body = kernel_formula(kernel, inputs(Z.shape[1]), points.coordinates())
    return NodeProgram(Z.shape[1], [Output("f", (total(body, alpha),), ())])


def evaluate(program, X, arithmetic=DOUBLE):
    """Return the outputs of a program, operation by operation in an arithmetic."""
    pytest.importorskip("onnx", reason='onnx is not installed: pip install ".[onnx]"')
    return evaluate_onnx(write_onnx(program, arithmetic, "program", {}), X.astype(arithmetic.inside.type))
