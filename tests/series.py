"""Try the promises on as many random fits as there is time for: ``python tests/series.py``.

Each series is a law of the tests, tried with one seed after another. A broken promise ends its series and is printed
with its seed; the exit status is then 1.
"""

import argparse
import importlib.util
import os
import sys
import time
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "oracles")]
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@cache
def load_tests(name):
    """Return a module of tests by its path below this folder."""
    spec = importlib.util.spec_from_file_location(name.replace("/", "_"), HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def turn(values, seed):
    """Return one of the values after the other, as the seed grows."""
    return list(values)[seed % len(values)]


def try_searches_of_gamma(seed):
    tests = load_tests("problems/test_bounds_are_true")
    assert tests.below_the_bound(*tests.searched(seed)) <= 1e-12


def try_fused_paths(seed):
    tests = load_tests("problems/test_bounds_are_true")
    assert tests.fused_l1_below(seed) <= 1e-12
    assert tests.fused_rho_below(seed) <= 1e-6


def try_searches_on_a_basis(seed):
    load_tests("problems/test_reduced_bounds").check(seed, turn(("loo", "gcv", "evidence", "folds"), seed), 8)


def try_laws_of_fusion(seed):
    tests = load_tests("substrate/fusion/test_laws_of_fusion")
    machine = tests.fused_machine(turn(tests.KINDS, seed), seed)
    tests.assert_law(machine, tests.fused(machine), tests.np.random.default_rng(seed), 100)


def try_fused_problems(seed):
    tests = load_tests("substrate/fusion/test_problem_fusion")
    tests.scan(turn(tests.KINDS, seed), seed, 60)


def try_optima_of_kernels(seed):
    tests = load_tests("test_kernel_optima")
    kind = turn(tests.PENALISED + tests.UNPENALISED, seed)
    tests.test_no_answer_is_farther_from_the_optimum_of_the_kernel_than_its_bound(kind, seed)


#: The laws by the name of their series; each raises where a promise is broken.
SERIES = {
    "dense fits": lambda seed: load_tests("test_trust").check_promises([seed]),
    "all estimators": lambda seed: load_tests("test_wild_machines").check_promises([seed]),
    "searches of gamma": try_searches_of_gamma,
    "searches on a basis": try_searches_on_a_basis,
    "fused paths": try_fused_paths,
    "machines": lambda seed: load_tests("substrate/declare/test_accuracy").scanned([seed]),
    "machines of rows": lambda seed: load_tests(
        "substrate/declare/test_rows"
    ).test_random_machines_hold_and_no_solver_contradicts_them(seed),
    "optima of kernels": try_optima_of_kernels,
    "fusions": lambda seed: load_tests("substrate/fusion/test_bounds_are_true").scanned([seed], gap=1e-3),
    "laws of fusion": try_laws_of_fusion,
    "fused problems": try_fused_problems,
}


def run_series(name, first, seconds):
    """Return how many seeds a series had time for, and what was wrong with the last one."""
    end, seed = time.monotonic() + seconds, first
    warnings.simplefilter("ignore")
    while time.monotonic() < end:
        try:
            SERIES[name](seed)
        except Exception:
            return seed - first, f"{name}, seed {seed}:\n{traceback.format_exc()}"
        seed += 1
    return seed - first, ""


def main():
    """Run all series and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=25.0, help="the time for all series together")
    parser.add_argument("--first", type=int, default=1000, help="the first seed")
    given = parser.parse_args()
    processes = min(os.cpu_count() or 1, len(SERIES))
    seconds = 60.0 * given.minutes * processes / len(SERIES)
    is_broken = False
    with ProcessPoolExecutor(processes) as pool:
        running = {name: pool.submit(run_series, name, given.first, seconds) for name in SERIES}
        for name, result in running.items():
            count, wrong = result.result()
            print(wrong or f"{name}: {count} seeds, every promise kept", flush=True)
            is_broken |= bool(wrong)
    return int(is_broken)


if __name__ == "__main__":
    sys.exit(main())
