"""Declared problems and closed forms refuse bad arguments by name, and solve degenerate ones with a certificate."""

import copy
import inspect

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from every_model import FUNCTIONS, WITH_CLOSED_FORM, arguments_of, first_rows, on_matrix, over_functions, over_modules
from numpy.testing import assert_allclose, assert_array_equal
from spoilt_values import BAD_NUMBERS, brief, dates, indefinite, read_only, with_entry

from substrate.errors import DataError, DeclarationError, IndefiniteKernelWarning, SolverError

BAD_K = {
    "NaN": (lambda K: with_entry(K, np.nan), "K.*NaN"),
    "infinity": (lambda K: with_entry(K, np.inf), "K.*(NaN|inf)"),
    "not square": (lambda K: K[:, :-1], "K.*square"),
    "not symmetric": (lambda K: with_entry(K, K[3, 0] + 0.1), "K.*symmetric"),
    "one dimension": (lambda K: K[0], "K.*2-D"),
    "three dimensions": (lambda K: K[None], "K.*2-D"),
    "no rows": (lambda K: K[:0, :0], "K.*empty"),
    "None": (lambda K: None, "K"),
    "strings": (lambda K: K.astype(str), "K.*real numbers"),
    "objects": (lambda K: K.astype(object), "K.*real numbers"),
    "complex": (lambda K: K + 0j, "K.*complex"),
    "dates": (lambda K: dates(K.size).reshape(K.shape), "K.*dates"),
    "masked": (lambda K: np.ma.array(K), "K.*mask"),
    "sparse": (lambda K: sp.csr_matrix(K), "K"),
}
BAD_DECLARED_Y = {
    "NaN": (lambda y: with_entry(y, np.nan), "y.*NaN"),
    "infinity": (lambda y: with_entry(y, np.inf), "y.*(NaN|inf)"),
    "too short": (lambda y: y[:-1], "y.*expected 12.*received 11"),
    "too long": (lambda y: np.append(y, y[0]), "y.*expected 12.*received 13"),
    "empty": (lambda y: y[:0], "y.*empty"),
    "a column": (lambda y: y[:, None], "y.*1-D"),
    "a scalar": (lambda y: 3.0, "y.*1-D"),
    "None": (lambda y: None, "y"),
    "strings": (lambda y: y.astype(str), "y.*real numbers"),
    "objects": (lambda y: y.astype(object), "y.*real numbers"),
    "complex": (lambda y: y + 0j, "y.*complex"),
    "dates": (lambda y: dates(y.size), "y.*dates"),
    "a list of dates": (lambda y: list(dates(y.size)), "y.*(dates|real numbers)"),
    "a series of dates": (lambda y: pd.Series(dates(y.size)), "y.*dates"),
    "masked": (lambda y: np.ma.array(y), "y.*mask"),
}
BAD_DECLARED_WEIGHTS = {
    "NaN": (lambda w: with_entry(w, np.nan), "weights.*NaN"),
    "infinity": (lambda w: with_entry(w, np.inf), "weights.*(NaN|inf)"),
    "negative": (lambda w: with_entry(w, -1.0), "weights.*negative"),
    "a zero": (lambda w: with_entry(w, 0.0), "weights.*positive"),
    "all zero": (lambda w: 0.0 * w, "weights.*positive"),
    "too short": (lambda w: w[:-1], "weights.*expected 12.*received 11"),
    "a column": (lambda w: w[:, None], "weights.*1-D"),
    "strings": (lambda w: w.astype(str), "weights.*real numbers"),
}
#: Parameters that may be nought or negative.
OF_ANY_SIGN = {"c"}


@over_functions
@pytest.mark.parametrize("case", BAD_K)
def test_bad_matrices_are_refused_by_name(function, case):
    call, module = FUNCTIONS[function]
    K, y, parameters = arguments_of(module)
    change, message = BAD_K[case]
    with pytest.raises(ValueError, match=message):
        call(change(K), y, **parameters)


@over_functions
@pytest.mark.parametrize("case", BAD_DECLARED_Y)
def test_bad_targets_are_refused_by_name(function, case):
    call, module = FUNCTIONS[function]
    K, y, parameters = arguments_of(module)
    change, message = BAD_DECLARED_Y[case]
    with pytest.raises(ValueError, match=message):
        call(K, change(y), **parameters)


WEIGHTED = [name for name, (call, _) in FUNCTIONS.items() if "weights" in inspect.signature(call).parameters]


@pytest.mark.parametrize("function", WEIGHTED)
@pytest.mark.parametrize("case", BAD_DECLARED_WEIGHTS)
def test_bad_weights_are_refused_by_name(function, case):
    call, module = FUNCTIONS[function]
    K, y, parameters = arguments_of(module)
    change, message = BAD_DECLARED_WEIGHTS[case]
    with pytest.raises(ValueError, match=message):
        call(K, y, **parameters, weights=change(np.ones(y.size)))


#: Pages whose rho may be one number per component, here one.
EACH_COMPONENT = ("maximal_variation", "decoupled_maximal_variation")


@over_functions
@pytest.mark.parametrize("value", [*BAD_NUMBERS, np.array([1.0])], ids=brief)
def test_bad_parameters_are_refused_by_name(function, value):
    call, module = FUNCTIONS[function]
    K, y, parameters = arguments_of(module)
    numbers = [name for name, given in parameters.items() if isinstance(given, float)]
    numbers += [name for name in inspect.signature(call).parameters if name == "cutoff"]
    assert numbers or function == "confined_fusion.declare", "which has points and columns only"
    for name in numbers:
        if name in OF_ANY_SIGN and not isinstance(value, bool) and value in (0, -1.0):
            continue
        if name == "rho" and function.split(".")[0] in EACH_COMPONENT and np.shape(value) == (1,):
            continue
        with pytest.raises(ValueError, match=name):
            call(K, y, **parameters | {name: value})


@over_functions
def test_one_row_is_too_few_to_declare_and_two_are_enough(function):
    call, module = FUNCTIONS[function]
    K, y, parameters = arguments_of(module)
    two = [int(np.argmin(y)), int(np.argmax(y))]
    with pytest.raises(ValueError, match=r"two|2"):
        call(K[:1, :1], y[:1], **first_rows(parameters, [0]))
    result = call(K[np.ix_(two, two)], y[two], **first_rows(parameters, two))
    solution = result if isinstance(result, dict) else result.solve().solution()
    assert all(np.isfinite(value).all() for value in solution.values())


@pytest.mark.parametrize(
    "function", [n for n, (f, _) in FUNCTIONS.items() if "task" in inspect.signature(f).parameters]
)
def test_a_task_is_one_of_two_and_the_labels_of_classes_are_signs(function):
    call, module = FUNCTIONS[function]
    K, y, parameters = arguments_of(module)
    for task in ("ranking", "", None, 1):
        with pytest.raises(DeclarationError, match="task must be one of regression, classification"):
            call(K, y, **parameters | {"task": task})
    with pytest.raises(DataError, match=r"y must hold labels -1 and \+1"):
        call(K, 1.1 * y, **parameters | {"task": "classification"})


def forms(module):
    if "form" not in inspect.signature(module.declare).parameters:
        return [{}]
    return [dict(case.choice) for case in module.DEMONSTRATION.cases]


@over_modules
def test_an_indefinite_matrix_cannot_be_declared(module):
    _, y, parameters = arguments_of(module)
    for form in forms(module):
        K = indefinite(y.size)
        with pytest.raises(DeclarationError, match=r"not positive semi-definite: its smallest eigenvalue is -5"):
            module.declare(K, y, **on_matrix(parameters, K), **form)
        K = indefinite(y.size, -0.001)
        with pytest.raises(DeclarationError, match=r"smallest eigenvalue is -0\.001"):
            module.declare(K, y, **on_matrix(parameters, K), **form)


@pytest.mark.parametrize("module", WITH_CLOSED_FORM.values(), ids=WITH_CLOSED_FORM)
def test_an_indefinite_matrix_warns_in_the_closed_form(module):
    _, y, parameters = arguments_of(module)
    if "norm" in parameters:
        parameters["norm"] = 0.3  # one that this matrix reaches
    if module.__name__.endswith(("huber_ls_svm", "squared_hinge_svm")):  # without a minimum Newton's method has no end
        with pytest.raises(SolverError, match=r"positive semi-definite|singular"):
            module.closed_form(indefinite(y.size), y, **parameters)
        return
    with pytest.warns(IndefiniteKernelWarning, match="smallest eigenvalue -5"):
        solution = module.closed_form(K := indefinite(y.size), y, **on_matrix(parameters, K))
    assert all(np.isfinite(value).all() for value in solution.values())


KINDS = {
    "list": lambda values: values.tolist(),
    "float32": lambda values: values.astype(np.float32),
    "read-only": read_only,
    "Fortran order": np.asfortranarray,
    "strided": lambda values: (
        np.repeat(np.repeat(values, 2, axis=0), 2, axis=-1)[::2, ::2] if values.ndim == 2 else np.repeat(values, 2)[::2]
    ),
    "pandas": lambda values: pd.DataFrame(values) if values.ndim == 2 else pd.Series(values),
    "polars": lambda values: pl.DataFrame(values) if values.ndim == 2 else pl.Series(values),
}


@over_functions
@pytest.mark.parametrize("kind", KINDS)
def test_matrices_of_many_kinds_are_read_and_not_modified(function, kind):
    call, module = FUNCTIONS[function]
    K, y, parameters = arguments_of(module)
    given = KINDS[kind](K), KINDS[kind](y)
    before = copy.deepcopy(given)

    def solved(K, y):
        result = call(K, y, **parameters)
        return result if isinstance(result, dict) else result.solve().solution()

    found, expected = solved(*given), solved(np.array(given[0], dtype=float), np.array(given[1], dtype=float))
    for name, value in expected.items():
        assert_allclose(found[name], value, rtol=1e-9, atol=1e-12)
    for now, then in zip(given, before, strict=True):
        assert_array_equal(np.asarray(now), np.asarray(then))


@over_modules
@pytest.mark.parametrize("matrix", [np.zeros, np.ones, lambda n: np.eye(n[0])], ids=["zeros", "ones", "identity"])
def test_degenerate_matrices_are_solved(module, matrix):
    _, y, parameters = arguments_of(module)
    K = matrix((y.size, y.size))
    parameters = on_matrix(parameters, K)
    if "norm" in parameters and not np.ptp(K):  # whatever gamma is, the machine is a constant
        for function in (module.declare, module.closed_form):
            with pytest.raises(DataError, match="no gamma gives"):
                function(K, y, **parameters)
        return
    expected = module.closed_form(K, y, **parameters) if hasattr(module, "closed_form") else None
    for form in forms(module):
        declared = module.declare(K, y, **parameters, **form).solve()
        certificate = declared.certificate(against=expected)
        assert certificate.holds, str(certificate)
