"""The gamma of a given noise or norm: its bracket against fifty digits, what no gamma has, and the declared page."""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import LSSVMRegressor, LSSVMRegressorCV, constrained_ls_svm, load
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Linear, Polynomial
from substrate.operators import Gram
from substrate.operators.spectrum import centred_spectrum
from substrate.select.secular_equation import SecularEquation


def data(seed=0, n=12, offset=0.0, unit=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n)
    return X, unit * y + offset, rng.uniform(0.5, 2.0, n)


def exact_machine(K, y, v, gamma):
    """Noise and norm of the machine in fifty digits."""
    with mpmath.workdps(50):
        n = len(y)
        system = mpmath.zeros(n + 1, n + 1)
        for i in range(n):
            system[0, i + 1] = system[i + 1, 0] = 1
            for j in range(n):
                system[i + 1, j + 1] = mpmath.mpf(float(K[i, j]))
            system[i + 1, i + 1] += 1 / (mpmath.mpf(gamma) * mpmath.mpf(float(v[i])))
        solution = mpmath.lu_solve(system, mpmath.matrix([0, *map(float, y)]))
        alpha = [solution[i + 1] for i in range(n)]
        squares = sum(a**2 / (mpmath.mpf(gamma) ** 2 * mpmath.mpf(float(w))) for a, w in zip(alpha, v, strict=True))
        noise = mpmath.sqrt(squares / sum(mpmath.mpf(float(w)) for w in v))
        norm = sum(alpha[i] * alpha[j] * mpmath.mpf(float(K[i, j])) for i in range(n) for j in range(n))
        return noise, mpmath.sqrt(norm)


@pytest.mark.parametrize("quantity", ["noise", "norm"])
@pytest.mark.parametrize(("offset", "unit"), [(0.0, 1.0), (1e6, 1.0), (0.0, 1e-8)])
def test_the_exact_root_is_between_the_ends(quantity, offset, unit):
    X, y, v = data(offset=offset, unit=unit)
    kernel = RBF(1.5)
    value = unit * (0.4 if quantity == "noise" else 0.8)
    found = LSSVMRegressor(kernel).gamma_for(X, y, v, **{quantity: value})
    assert found.certificate.holds
    low, high = found.gamma_range
    assert low < found.gamma < high <= low * (1.0 + 1e-6)
    K = kernel(X)  # entries are exact by definition of the oracle, and off by rounding alone
    at_low, at_high = (exact_machine(K, y, v, gamma)[quantity == "norm"] for gamma in (low, high))
    small, large = (at_high, at_low) if quantity == "noise" else (at_low, at_high)
    assert small < value < large


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_enclosures_hold_what_they_enclose(seed, offset):
    X, y, v = data(seed, offset=offset)
    K = RBF(1.5)(X)
    spectrum = centred_spectrum(Gram.from_matrix(K), 0.0, v)
    equation = SecularEquation.of(spectrum, spectrum.targets(y))
    for gamma in (1e-4, 0.1, 10.0, 1e6):
        for quantity, exact in zip(("noise", "norm"), exact_machine(K, y, v, gamma), strict=True):
            low, high = equation.between(quantity, 1.0 / gamma)
            assert low <= exact <= high
            assert high - low <= 1e-6 * high


@pytest.mark.parametrize("machine", [LSSVMRegressor(RBF(1.5)), LSSVMRegressor(RBF(1.5), linear_columns=[1])])
def test_the_machine_at_gamma_has_the_noise_and_the_norm(machine):
    X, y, v = data(n=40)
    machine.gamma = machine.gamma_for(X, y, v, noise=0.35).gamma
    errors = y - machine.fit(X, y, v).predict(X)
    assert_allclose(np.sqrt(np.sum(v * errors**2) / v.sum()), 0.35, rtol=1e-9)
    machine.gamma = machine.gamma_for(X, y, v, norm=0.6).gamma
    alpha, kernel = machine.fit(X, y, v).support_values_, machine.kernel_
    assert_allclose(np.sqrt(alpha @ kernel(X) @ alpha), 0.6, rtol=1e-8)


@pytest.mark.parametrize("kernel", [RBF(1.5), Linear(), Polynomial(2)])
def test_what_no_gamma_has_is_refused_with_what_is_reached(kernel):
    X, y, _ = data(n=30)
    machine = LSSVMRegressor(kernel)
    low, high = machine.gamma_for(X, y, noise=0.7 * y.std()).reachable
    assert_allclose(high, y.std(), rtol=1e-12)
    for noise in (0.99 * low, 1.01 * high):
        with pytest.raises(DataError, match=r"no gamma gives a root mean square .* it lies between"):
            machine.gamma_for(X, y, noise=noise)
    with pytest.raises(DataError, match=r"no gamma gives a norm of w of 1e\+30"):
        machine.gamma_for(X, y, norm=1e30)


@pytest.mark.parametrize("given", [{"noise": 0.35}, {"norm": 0.6}])
def test_the_declared_problem_agrees_with_the_estimator(given):
    """Check the declared problems against the secular equation.

    :place [Morozov1984]_ discrepancy principle: the multiplier of the constraint is the gamma of the root
    :place [Ivanov1976]_ quasi-solution: one over the multiplier is the gamma of the root
    """
    X, y, v = data(n=40)
    kernel = RBF(1.5)
    declared = constrained_ls_svm.declare(kernel(X), y, v, **given).solve("CLARABEL")
    assert declared.certificate(constrained_ls_svm.closed_form(kernel(X), y, v, **given)).holds
    assert_allclose(float(declared.gamma), LSSVMRegressor(kernel).gamma_for(X, y, v, **given).gamma, rtol=1e-4)
    changed = next(iter(given))
    declared.parameters[changed].value = 0.9 * given[changed]  # solved again at another value of the parameter
    assert declared.solve("CLARABEL").certificate().holds


@pytest.mark.parametrize(("offset", "unit"), [(0.0, 1.0), (1e6, 1.0), (0.0, 1e-8)])
def test_a_search_by_noise_is_the_gamma_of_that_noise(offset, unit, tmp_path):
    X, y, v = data(offset=offset, unit=unit)
    model = LSSVMRegressorCV(RBF(1.5), cv="noise", noise=0.4 * unit).fit(X, y, sample_weight=v)
    found = LSSVMRegressor(RBF(1.5)).gamma_for(X, y, v, noise=0.4 * unit)
    assert_allclose(model.gamma_, found.gamma, rtol=1e-9)
    assert model.gamma_range_[0] < model.gamma_ < model.gamma_range_[1]
    assert model.certificate_.holds
    assert model.certify(X, y, v).holds
    errors = y - model.predict(X)
    assert_allclose(np.sqrt(np.sum(v * errors**2) / v.sum()), 0.4 * unit, rtol=1e-6)
    assert_allclose(model.criterion_, (0.4 * unit) ** 2)
    model.save(tmp_path / "m.npz")
    assert load(tmp_path / "m.npz").gamma_ == model.gamma_


@pytest.mark.parametrize(
    ("choice", "error", "match"),
    [
        ({"cv": "noise"}, DeclarationError, "needs noise"),
        ({"noise": 0.3}, DeclarationError, "noise is for cv='noise' alone"),
        ({"cv": "noise", "noise": -1.0}, DeclarationError, "noise"),
        ({"cv": "noise", "noise": 1e3}, DataError, "lies between"),
        ({"cv": "noise", "noise": 0.3, "kernels": [RBF(1.0)]}, DeclarationError, "set kernels=None"),
        ({"cv": "noise", "noise": 0.3, "gamma_range": (1.0, 2.0)}, DeclarationError, "set gamma_range=None"),
        ({"cv": "noise", "noise": 0.3, "search": "gradient"}, DeclarationError, "set search=None"),
    ],
)
def test_a_search_by_noise_compares_nothing(choice, error, match):
    X, y, _ = data()
    with pytest.raises(error, match=match):
        LSSVMRegressorCV(RBF(1.5), **choice).fit(X, y)
