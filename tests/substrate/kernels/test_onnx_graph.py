"""A graph of ONNX computes what numpy does, table by table and label by label, and within the bound on its rounding."""

import numpy as np
import pytest
from kernel_formulas import WITH_FORMULA, evaluate, expansion
from onnx_graphs import run_onnx

from substrate.kernels import RBF, Categorical, Matern, PowerExponential
from substrate.kernels.nodes import (
    NodeProgram,
    Output,
    Points,
    constant,
    greater,
    inputs,
    kernel_formula,
    largest,
    select,
    total,
)
from substrate.kernels.onnx_graph import write_onnx
from substrate.kernels.rounding_bound import DOUBLE, LAST_PLACES, SINGLE, bound_rounding

LABELS = np.array(['a"?\\n', "é\t\n*/", "??/", "plain"], dtype=object)


def rich_program():
    """A program with two sets of points, all kinds of operations and labels, and its rows."""
    rng = np.random.default_rng(0)
    Z, X = rng.normal(size=(6, 3)), rng.normal(size=(9, 3))
    X[:, 2] = rng.integers(0, 3, size=9)
    Z[:, 2] = rng.integers(0, 3, size=6)
    x, first, second = inputs(3), Points(Z), Points(Z[:2] + 0.5)
    body = kernel_formula(RBF(1.0).on(0, 1) * Categorical(1.0).on(2), x, first.coordinates())
    other = kernel_formula(Matern(1.0, 1.5) + PowerExponential(1.0, 1.5, 0.7), x, second.coordinates())
    f = total(body, rng.normal(size=6)) + 0.3
    g = total(body, rng.normal(size=6)) - total(other, rng.normal(size=2)) / 3.0
    label = select(greater(f, 0.0), select(greater(g, 0.0), 3.0, 2.0), select(greater(g, 0.0), 1.0, 0.0))
    outputs = [
        Output("prediction", (f, g), (2,)),
        Output("label", (label,), (), LABELS),
        Output("probabilities", (largest(f, g), -abs(g).sqrt()), (2,)),
    ]
    return NodeProgram(3, outputs), X


@pytest.mark.parametrize("arithmetic", [SINGLE, DOUBLE], ids=lambda a: a.name)
def test_onnx_computes_what_numpy_does(arithmetic):
    pytest.importorskip("onnx", reason='onnx is not installed: pip install ".[onnx]"')
    program, X = rich_program()
    X = X.astype(arithmetic.inside.type).astype(np.float64)
    expected = evaluate(program, X)
    answers = run_onnx(write_onnx(program, arithmetic, "model", {"note": "kept"}).SerializeToString(), X)
    rough = 1e-5 if arithmetic is SINGLE else 1e-13
    for name in ("prediction", "probabilities"):
        assert answers[name].shape == expected[name].shape
        np.testing.assert_allclose(answers[name], expected[name], rtol=rough, atol=rough)
    assert answers["label"].tolist() == expected["label"].tolist()


@pytest.mark.parametrize("example", WITH_FORMULA, ids=str)
@pytest.mark.some_cases(4)
def test_onnxruntime_is_within_the_bound(example):
    """Its exponentials and powers are as right as the bound takes them to be, also in corners and at the points."""
    pytest.importorskip("onnx", reason='onnx is not installed: pip install ".[onnx]"')
    rng = np.random.default_rng(5)
    Z, alpha = example.points(8), rng.normal(size=8)
    program, box = expansion(example.kernel, Z, alpha), np.column_stack([Z.min(axis=0), Z.max(axis=0)])
    corners = np.where(rng.random((40, Z.shape[1])) < 0.5, box[:, 0], box[:, 1])
    X = np.vstack([rng.uniform(box[:, 0], box[:, 1], size=(400, Z.shape[1])), corners, Z])
    exact, doubles = evaluate(program, X)["f"], bound_rounding(program, box, DOUBLE).loss
    for arithmetic in (SINGLE, DOUBLE):
        model = write_onnx(program, arithmetic, "model", {})
        loss = bound_rounding(program, box, arithmetic).loss
        assert np.abs(run_onnx(model.SerializeToString(), X)["f"] - exact).max() <= loss + doubles


@pytest.mark.parametrize("arithmetic", [SINGLE, DOUBLE], ids=lambda a: a.name)
def test_exponentials_and_powers_of_onnxruntime_are_as_right_as_the_bound_takes_them_to_be(arithmetic):
    """At most four units of the last place, or a number below the smallest normal one."""
    pytest.importorskip("onnx", reason='onnx is not installed: pip install ".[onnx]"')
    kind, rng = arithmetic.inside.type, np.random.default_rng(0)
    limit = float(np.log(arithmetic.inside.tiny))
    t = np.concatenate([rng.uniform(1.05 * limit, 0.0, 20_000), -(10.0 ** rng.uniform(-8.0, 1.0, 20_000))]).astype(kind)
    x, ones = inputs(1), Points(np.zeros((1, 1)))
    (z,) = ones.coordinates()
    for node, exact, values in (
        ((x[0] + z).exp(), lambda v: np.exp(v), t),
        ((abs(x[0]) + z) ** constant(0.7), lambda v: np.abs(v) ** np.longdouble(kind(0.7)), t),
        ((abs(x[0]) + z).sqrt(), lambda v: np.sqrt(np.abs(v)), t),
    ):
        program = NodeProgram(1, [Output("f", (total(node, np.ones(1)),), ())])
        computed = run_onnx(write_onnx(program, arithmetic, "m", {}).SerializeToString(), values[:, None])["f"]
        right = exact(values.astype(np.longdouble))
        off = np.abs(computed.astype(np.longdouble) - right)
        assert (off <= LAST_PLACES * 2.0 * arithmetic.inside.unit * np.abs(right) + arithmetic.inside.tiny).all()


def test_a_factor_of_a_kernel_or_of_a_sum_keeps_its_digits():
    """A runtime that merges it with the sum over the points must not do so in single precision."""
    pytest.importorskip("onnx", reason='onnx is not installed: pip install ".[onnx]"')
    rng = np.random.default_rng(5)
    Z, alpha = rng.normal(size=(8, 2)), rng.normal(size=8)
    x, points = inputs(2), Points(Z)
    body = 0.1 * kernel_formula(RBF(1.0), x, points.coordinates())
    program = NodeProgram(2, [Output("f", (0.3 * total(body, alpha), total(body / 0.7, alpha) / 3.0), (2,))])
    answers = run_onnx(write_onnx(program, DOUBLE, "model", {}).SerializeToString(), Z)
    np.testing.assert_allclose(answers["f"], evaluate(program, Z)["f"], rtol=1e-14, atol=1e-15)


def test_a_function_that_depends_on_nothing_answers_every_row():
    pytest.importorskip("onnx", reason='onnx is not installed: pip install ".[onnx]"')
    program = NodeProgram(2, [Output("f", (inputs(2)[0] * 0.0 + 4.0,), ())])
    answers = run_onnx(write_onnx(program, DOUBLE, "model", {}).SerializeToString(), np.ones((3, 2)))
    np.testing.assert_array_equal(answers["f"], np.full(3, 4.0))
