"""One root, four leaves, and each error tells whether trying again helps."""

import pytest

from substrate import errors

LEAVES = [errors.DataError, errors.DeclarationError, errors.SolverError, errors.CertificateError]


def test_every_exported_name_is_an_error_or_a_warning_of_the_package():
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), (errors.SubstrateError, errors.SubstrateWarning))


@pytest.mark.parametrize("error", [errors.DataError, errors.DeclarationError])
def test_bad_input_is_also_a_value_error(error):
    assert issubclass(error, ValueError)


@pytest.mark.parametrize("error", [errors.SolverError, errors.CertificateError])
def test_failures_at_work_are_runtime_errors_and_no_value_errors(error):
    assert issubclass(error, RuntimeError)
    assert not issubclass(error, ValueError)


def test_only_another_solve_may_help_by_itself():
    assert [error for error in LEAVES if error("x").retry_helps] == [errors.SolverError]
