"""The symmetric LS-SVM: constraints on mirrored points, one kernel, and functions that are even or odd but for b."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from variants import symmetric_machine

from problems import LSSVMRegressor, load, symmetric_ls_svm
from substrate.errors import DataError, DeclarationError, DegenerateKernelWarning
from substrate.kernels import RBF, Componentwise, Laplacian, Linear, Matern, Polynomial, Precomputed, Symmetric
from substrate.operators import Gram

GAMMA = 10.0
SIGNS = {"even": 1.0, "odd": -1.0}
over_symmetries = pytest.mark.parametrize("symmetry", SIGNS)
KERNELS = [RBF(1.0), Laplacian(1.5), Matern(1.0), Linear(), Polynomial(3), Componentwise(RBF(0.8)), RBF(1.0) * Linear()]


def data(n=30, columns=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    return X, np.sin(2.0 * X[:, 0]) + X[:, -1] ** 2 + 3.0 + 0.1 * rng.normal(size=n)


def arguments(symmetry, kernel=KERNELS[0]):
    X, y = data()
    return {"K": kernel(X), "K_mirrored": kernel(-X, X), "y": y, "gamma": GAMMA, "symmetry": symmetry}


def written_down(K, K_mirrored, y, gamma, symmetry):
    """The problem itself, in features of an eigendecomposition of the kernel on the 2N points."""
    values, vectors = np.linalg.eigh(np.block([[K, K_mirrored], [K_mirrored, K]]))
    here, there = np.split(vectors * np.sqrt(np.maximum(values, 0.0)), 2)
    w, b, e = cp.Variable(2 * y.size), cp.Variable(), cp.Variable(y.size)
    constraints = [here @ w + b + e == y, here @ w == SIGNS[symmetry] * (there @ w)]
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + 0.5 * gamma * cp.sum_squares(e)), constraints)
    problem.solve(solver="CLARABEL")
    return problem.value, e.value, b.value


# ---- the page ------------------------------------------------------------------------------------


@over_symmetries
@pytest.mark.parametrize("kernel", [RBF(1.0), Linear(), Polynomial(2)], ids=repr)
def test_declared_closed_form_and_written_down_agree(symmetry, kernel):
    """:place [Espinoza2005]_ primal problem: the declared problem is the problem written down anew."""
    given = arguments(symmetry, kernel)
    closed = symmetric_ls_svm.closed_form(**given)
    declared = symmetric_ls_svm.declare(**given).solve()
    certificate = declared.certificate(against=closed)
    assert certificate.holds, str(certificate)
    assert sum(row.name.startswith("agreement") for row in certificate.rows) == 3
    value, errors, b = written_down(**given)
    assert_allclose(declared.problem.value, value, rtol=1e-5)
    assert_allclose(closed["errors"], errors, atol=1e-4 * np.abs(given["y"]).max())
    assert_allclose(closed["bias"], b, atol=1e-4 * np.abs(given["y"]).max())


@over_symmetries
def test_the_system_has_the_equivalent_kernel(symmetry):
    """:place [Espinoza2005]_ dual problem: alpha and b solve the bordered system with (K + s M) / 2."""
    given = arguments(symmetry)
    closed, n = symmetric_ls_svm.closed_form(**given), given["y"].size
    system = np.ones((n + 1, n + 1))
    system[0, 0] = 0.0
    system[1:, 1:] = (given["K"] + SIGNS[symmetry] * given["K_mirrored"]) / 2.0 + np.eye(n) / GAMMA
    solution = np.linalg.solve(system, np.append(0.0, given["y"]))
    assert_allclose(closed["support_values"], solution[1:], atol=1e-9 * np.abs(solution[1:]).max())
    assert_allclose(closed["bias"], solution[0], rtol=1e-9)


@pytest.mark.parametrize("function", [symmetric_ls_svm.declare, symmetric_ls_svm.closed_form])
def test_refusals_of_the_page(function):
    given = arguments("even")
    with pytest.raises(DataError, match=r"K_mirrored must have the shape of K, \(30, 30\); received \(29, 29\)"):
        function(**given | {"K_mirrored": given["K_mirrored"][1:, 1:]})
    with pytest.raises(DataError, match=r"K_mirrored.*symmetric"):
        function(**given | {"K_mirrored": np.triu(given["K_mirrored"])})
    with pytest.raises(DeclarationError, match=r"symmetry must be one of.*'both'"):
        function(**given | {"symmetry": "both"})


# ---- the estimator -------------------------------------------------------------------------------


@over_symmetries
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_function_is_even_or_odd_but_for_its_bias(symmetry, kernel):
    X, y = data()
    model = symmetric_machine(kernel, GAMMA, symmetry=symmetry).fit(X, y)
    assert model.certificate_.holds, str(model.certificate_)
    points = np.random.default_rng(1).normal(size=(20, 2))
    f, g = model.predict(points) - model.bias_, model.predict(-points) - model.bias_
    assert_allclose(g, SIGNS[symmetry] * f, rtol=0.0, atol=1e-12 * np.abs(y).max())


def test_an_even_machine_is_the_plain_one_on_mirrored_rows_with_half_the_weight():
    X, y = data()
    model = symmetric_machine(RBF(1.0), 2.0 * GAMMA).fit(X, y)
    plain = LSSVMRegressor(RBF(1.0), GAMMA).fit(np.vstack([X, -X]), np.append(y, y))
    assert_allclose(model.predict(X), plain.predict(X), atol=1e-9 * np.abs(y).max())
    assert_allclose(model.bias_, plain.bias_, rtol=1e-9)


@over_symmetries
@pytest.mark.parametrize("kernel", [RBF(1.0), Polynomial(3)], ids=repr)
def test_proved_left_out_and_saved(symmetry, kernel, tmp_path):
    pytest.importorskip("flint", reason="proofs need python-flint")
    X, y = data(20)
    model = symmetric_machine(kernel, GAMMA, symmetry=symmetry).fit(X, y)
    assert model.prove(X, y).proved
    left = model.leave_one_out()
    assert left.certificate.holds
    kept = np.arange(20) != 4
    again = symmetric_machine(kernel, GAMMA, symmetry=symmetry).fit(X[kept], y[kept])
    assert_allclose(left.outputs[4], again.predict(X[[4]])[0], atol=1e-8 * np.abs(y).max())
    model.save(tmp_path / "m.npz")
    loaded = load(tmp_path / "m.npz")
    assert loaded.kernel == Symmetric(kernel, symmetry)
    assert loaded.kernel_ == Symmetric(kernel, symmetry)
    assert_array_equal(loaded.predict(X), model.predict(X))


# ---- the kernel ----------------------------------------------------------------------------------


def test_a_matrix_has_no_mirrored_points():
    with pytest.raises(DeclarationError, match="no mirrored points"):
        Symmetric(Precomputed())
    with pytest.raises(DeclarationError, match="Symmetric is made of other kernels, received 'rbf'"):
        Symmetric("rbf")


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_parts_make_up_the_kernel_and_are_orthogonal(kernel):
    X, _ = data(12)
    even, odd = Symmetric(kernel, "even"), Symmetric(kernel, "odd")
    assert_allclose(even(X) + odd(X), kernel(X), atol=1e-12 * np.abs(kernel(X)).max())
    assert_allclose(Symmetric(even, "odd")(X), 0.0, atol=1e-12 * np.abs(kernel(X)).max())


# ---- cancellation --------------------------------------------------------------------------------


def far_rows(seed):
    """Rows of which most are equal, far from the origin, where the other part of a kernel is larger by many digits."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, 3)) + 10.0 ** rng.uniform(0.0, 4.0)
    X[rng.integers(12, size=6)] = X[0]
    return X, np.sin(rng.normal(size=12))


@over_symmetries
@pytest.mark.parametrize("kernel", [*KERNELS, Polynomial(2), Polynomial(2, 0.0), Polynomial(3, 5.0)], ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_a_part_that_cancels_is_not_called_indefinite(kernel, symmetry, seed):
    """Both parts are positive semi-definite by their formula; an IndefiniteKernelWarning would be an error here."""
    X, y = far_rows(seed)
    gram = Gram.of(Symmetric(kernel, symmetry).resolved(X), X)
    assert gram.diagonal.min() >= 0.0
    values = np.linalg.eigvalsh(gram.matrix)  # themselves within n eps of the largest
    assert values[0] >= -gram.cancelled - 12 * np.finfo(float).eps * values[-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # where rounding leaves no digit of the part, it is said
        warnings.simplefilter("ignore", DegenerateKernelWarning)
        model = symmetric_machine(kernel, 10.0, symmetry=symmetry).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
