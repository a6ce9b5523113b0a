"""One BLAS thread for small matrices, the user's own choice for large ones."""

import scipy.linalg  # noqa: F401  (its BLAS must be in the process before it is counted)
from threadpoolctl import threadpool_info, threadpool_limits

from substrate.threads import SERIAL_BELOW, blas_threads


def _threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_a_small_matrix_gets_one_thread_and_the_setting_comes_back():
    with threadpool_limits(2, user_api="blas"):
        before = _threads()
        assert before
        with blas_threads(SERIAL_BELOW - 1):
            assert set(_threads()) == {1}
        assert _threads() == before


def test_a_large_matrix_keeps_the_setting():
    with threadpool_limits(2, user_api="blas"):
        before = _threads()
        with blas_threads(SERIAL_BELOW):
            assert _threads() == before


def test_an_error_inside_restores_the_setting():
    with threadpool_limits(2, user_api="blas"):
        before = _threads()
        try:
            with blas_threads(1):
                raise KeyError
        except KeyError:
            pass
        assert _threads() == before
