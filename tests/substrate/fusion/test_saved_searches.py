"""Proofs of searches of gamma, and of machines with shapes, as files: what they hold, and what is not believed."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from problems import LSSVMClassifier, LSSVMRegressor
from substrate import Everywhere, Machine, Substrate, fuse
from substrate.errors import DataError
from substrate.fusion import check_fusion, load_proof
from substrate.kernels import RBF, Linear


def rows(n, seed=0, scale=1.0, offset=0.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 4.0, (n, 1))
    return X, scale * (np.tanh(2.0 * (X[:, 0] - 1.0)) + 0.4 * rng.standard_normal(n)) + offset


def classes(n, seed=0):
    X, y = rows(n, seed)
    return X, np.digitize(y, [-0.4, 0.6])


def by_validation(scale, offset):
    model, data = LSSVMRegressor(RBF(1.0)), (rows(24, 0, scale, offset), rows(12, 1, scale, offset))
    return fuse(model, "gamma", data=data[0], validation=data[1])


def by_folds(scale, offset):
    return fuse(LSSVMRegressor(Linear()), "gamma", data=rows(24, 0, scale, offset), cv=4)


def by_left_out_rows(scale, offset):
    return fuse(LSSVMRegressor(RBF(1.0)), "gamma", data=rows(24, 0, scale, offset), cv="loo")


def by_blocks(scale, offset):
    return fuse(LSSVMRegressor(RBF(1.0)), "gamma", data=rows(24, 0, scale, offset), cv="blocks")


def by_weighted_classes(scale, offset):
    model = LSSVMClassifier(RBF(1.0), class_weight="balanced", coding="one_vs_one")
    return fuse(model, "gamma", data=classes(30), cv=3)


def by_validation_of_classes(scale, offset):
    return fuse(
        LSSVMClassifier(RBF(1.0), class_weight="balanced"), "gamma", data=classes(30), validation=classes(20, 1)
    )


GAMMAS = (by_validation, by_folds, by_left_out_rows, by_blocks, by_weighted_classes, by_validation_of_classes)


@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), pytest.param(1e9, 1e12, marks=pytest.mark.slow)])
@pytest.mark.parametrize("made", GAMMAS, ids=[made.__name__ for made in GAMMAS])
def test_a_search_of_gamma_is_checked_from_its_file(made, scale, offset, tmp_path):
    """The file alone has the bound; with a larger one, a smaller error or a wider range it does not hold."""
    found = made(scale, offset)
    found.proof.save(tmp_path / "proof.npz")
    assert check_fusion(tmp_path / "proof.npz").holds
    proof = load_proof(tmp_path / "proof.npz")
    assert proof.bound() <= found.validation_error
    error = proof.validation_error
    assert not replace(proof, lower_bound=proof.lower_bound + 2e-2 * proof.gap * error).check().holds
    assert not replace(proof, lower_bound=(1.0 + 3.0 * proof.gap) * error, validation_error=1.1 * error).check().holds
    ((low, high),) = proof.box
    assert replace(proof, box=((low, 1e3 * high),)).bound() <= error * (1.0 + 1e-9)


def test_what_of_a_search_of_gamma_does_not_fit_together_is_refused(tmp_path):
    proof = by_folds(1.0, 0.0).proof
    numbers, part = proof.rows, proof.parts[0]
    crooked = numbers.matrix.copy()
    crooked[0, 1] += 1.0
    changes = [
        {"rows": replace(numbers, matrix=crooked)},
        {"rows": replace(numbers, criterion="none")},
        {"rows": replace(numbers, rounding=-1.0)},
        {"rows": replace(numbers, weights=-np.ones(24))},
        {"parts": (replace(part, train=np.array([0, 0, 1])),)},
        {"parts": (replace(part, check=np.array([99])),)},
        {"parts": ()},
    ]
    for change in changes:
        with pytest.raises(DataError, match="do not fit together"):
            replace(proof, **change).save(tmp_path / "proof.npz")
    single = by_left_out_rows(1.0, 0.0).proof
    with pytest.raises(DataError, match="do not fit together"):  # rows that are left out of a mean over all rows
        replace(single, parts=(replace(single.parts[0], train=np.arange(20)),)).save(tmp_path / "proof.npz")


def two_outputs(cv=None, scale=1.0, gap=1e-3):
    """Two outputs of different sizes, each with a gamma of its own."""
    (X, y), (Z, z) = rows(20, 0, scale), rows(12, 1, scale)
    Y, W = (np.column_stack([first, -(first**2) / scale + 5.0 * scale]) for first in (y, z))
    how = {"validation": (Z, W)} if cv is None else {"cv": cv}
    return fuse(LSSVMRegressor(RBF(1.0)), "gamma", data=(X, Y), gap=gap, **how)


@pytest.mark.parametrize(("cv", "scale"), [(None, 1.0), (3, 1e6), ("loo", 1e-6)])
def test_every_output_with_a_gamma_of_its_own_is_checked_from_one_file(cv, scale, tmp_path):
    """No number of an output is believed: nor an error, a bound or a range that its rows do not have."""
    both = two_outputs(cv, scale)
    assert 0.0 <= both.gap <= 1e-3
    both.proof.save(tmp_path / "proof.npz")
    certificate = check_fusion(tmp_path / "proof.npz")
    assert certificate.holds, str(certificate)
    proof = load_proof(tmp_path / "proof.npz")
    assert proof.names == ("gamma of output 1", "gamma of output 2")
    np.testing.assert_allclose([output.error for output in proof.outputs], both.validation_error)
    np.testing.assert_allclose([output.lower_bound for output in proof.outputs], both.lower_bound)
    assert f"no value below {both.lower_bound[1]:.6g}" in dict(certificate.record)["output 2"]
    # the sum as stated, and a bound of one output at the cost of the other
    first, second = proof.outputs
    shift = 0.5 * proof.gap * min(first.error, second.error)
    shifted = (
        first._replace(lower_bound=first.lower_bound + shift),
        second._replace(lower_bound=second.lower_bound - shift),
    )
    for changed_outputs, reason in (
        (shifted, "output 1 has a bound of"),
        ((first, second._replace(error=1.1 * second.error)), "output 2 is proved to be"),
        ((first._replace(least=-1.0), second), None),
        ((first, second._replace(lower_bound=np.nan)), None),
        ((first,), None),
        ((), None),
    ):
        changed_proof = replace(proof, outputs=changed_outputs)
        if reason is None:
            with pytest.raises(DataError, match="do not fit together"):
                changed_proof.save(tmp_path / "changed.npz")
        else:
            assert not changed_proof.check().holds
            assert reason in dict(changed_proof.check().record)["proved"]
    larger = replace(proof, lower_bound=proof.lower_bound * (1.0 + 1e-6))
    assert "not the sum" in dict(larger.check().record)["proved"]
    swapped = replace(proof, rows=replace(proof.rows, Y=proof.rows.Y[:, ::-1], Y_val=proof.rows.Y_val[:, ::-1]))
    assert not swapped.check().holds


def rising(X, y):
    s, C = Substrate(RBF(1.0), X, y), cp.Parameter(nonneg=True, name="C")
    loss = 0.5 * C * cp.sum_squares(s.e)
    return Machine(s, minimize=loss + 0.5 * s.squared_norm, subject_to=[s.gradient(Everywhere(), 0) >= 0.0])


@pytest.fixture(scope="module")
def shaped():
    return fuse(rising(*rows(16)), "C", validation=rows(12, 1), gap=0.1, box={"C": (1.0, 6.0)})


def test_a_fusion_with_a_shape_is_checked_from_its_file(shaped, tmp_path):
    shaped.proof.save(tmp_path / "proof.npz")
    certificate = check_fusion(tmp_path / "proof.npz")
    assert certificate.holds, certificate
    proof = load_proof(tmp_path / "proof.npz")
    machine, (Z, z) = rising(*rows(16)), rows(12, 1)
    for C in (1.0, 2.3, 6.0):
        error = float(np.square(z - machine.solve(C=C).expansions[0].predict(Z)).mean())
        assert proof.bound() / proof.divisor <= error * (1.0 + 1e-9)
    assert not replace(proof, lower_bound=1.01 * proof.lower_bound).check().holds


def changed(proof, **numbers):
    """Return the proof with other numbers at its second knot."""
    fold = proof.folds[0]
    first, second, *others = fold.knots
    return replace(proof, folds=(replace(fold, knots=(first, replace(second, **numbers), *others)),))


def test_no_number_of_a_knot_is_believed(shaped, tmp_path):
    """Functions that validate better or lack the shape, other multipliers and other weights prove less or nothing."""
    proof = shaped.proof
    knot = proof.folds[0].knots[1]
    ((points, directions, values),) = knot.multipliers
    assert values.max() > 0.0
    bound = proof.bound()

    def proved(changed_proof):
        return dict(changed_proof.check().record)["proved"]

    assert "not proved everywhere" in proved(changed(proof, coefficients=-knot.coefficients))
    assert "not affine" in proved(changed(proof, c=1.001 * knot.c))
    for worse in (
        changed(proof, bias=knot.bias + 0.05),
        changed(proof, coefficients=1.02 * knot.coefficients),
        changed(proof, multipliers=((points, directions, 1.5 * values),)),
        changed(proof, multipliers=((points, directions, 0.0 * values),)),
    ):
        certificate = worse.check()
        assert not certificate.holds
        assert "nothing" in dict(certificate.record)["proved"] or worse.bound() < bound
    for multipliers in (((points, directions, -values),), ((points + 10.0, directions, values),)):
        with pytest.raises(DataError, match="do not fit together"):
            changed(proof, multipliers=multipliers).save(tmp_path / "proof.npz")
    without = replace(proof, cells=proof.cells[1:])
    assert "hole" in proved(without) or "end at" in proved(without)


@pytest.mark.slow
def test_an_estimator_with_a_shape_has_its_proof_in_the_units_of_y(tmp_path):
    found = fuse(LSSVMRegressor(RBF(1.0), monotone={0: 1}), "gamma", data=rows(12, 0, 1e3, 1e6), cv=2, gap=0.3)
    found.proof.save(tmp_path / "proof.npz")
    proof = load_proof(tmp_path / "proof.npz")
    assert proof.validation_error == pytest.approx(found.validation_error, rel=1e-12)
    assert proof.check().holds == found.certificate.holds
