"""One BLAS thread for small matrices, the user's own choice for large ones."""

import threading

import pytest
import scipy.linalg  # noqa: F401  (its BLAS must be in the process before it is counted)
from threadpoolctl import threadpool_limits

from substrate.arrays import SERIAL_BELOW, _controller, blas_threads, one_blas_thread


def _threads():
    """Threads of numpy, scipy and solvers; torch, where a test before has loaded it, counts threads for each thread."""
    libraries = [library for library in _controller().info() if library["user_api"] == "blas"]
    return [library["num_threads"] for library in libraries if "torch" not in library["filepath"]]


pytestmark = pytest.mark.skipif(not _threads(), reason="threadpoolctl finds no BLAS whose threads can be limited")


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


def test_every_thread_can_have_one_and_give_it_back():
    """Also after another thread has set limits, and while that one is alive."""
    with threadpool_limits(2, user_api="blas"):
        before, seen = _threads(), {}
        first = one_blas_thread()

        def work():
            with one_blas_thread():
                seen["inside"] = _threads()
            seen["after"] = _threads()
            first.__enter__()

        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
        assert set(seen["inside"]) == {1}
        assert seen["after"] == before
        assert set(_threads()) == {1}
        first.__exit__(None, None, None)
        assert _threads() == before, "lifted by another thread than the one that set it"
