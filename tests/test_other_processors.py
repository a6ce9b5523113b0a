"""The tests under other BLAS kernels: what is run, what is skipped and why, and that nothing is taken on trust."""

import importlib.util
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[1]
_loader = SourceFileLoader("other_processors", str(ROOT / ".ci" / "other_processors"))
other_processors = importlib.util.module_from_spec(importlib.util.spec_from_loader(_loader.name, _loader))
_loader.exec_module(other_processors)

Choice = other_processors.Choice
HASWELL = Choice("Haswell", ("avx2", "fma"))


@pytest.fixture
def machine(monkeypatch):
    """An x86-64 machine of two processors without AVX-512, on which every choice is taken and every test passes."""
    monkeypatch.setattr(other_processors.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(other_processors.os, "sched_getaffinity", lambda process: {0, 1}, raising=False)
    monkeypatch.setattr(other_processors, "flags_of", lambda text: frozenset({"sse4_2", "avx2", "fma"}))
    monkeypatch.setattr(other_processors, "probed", answered)
    monkeypatch.setattr(other_processors, "compile_once", lambda: None)
    monkeypatch.setattr(other_processors, "tested", lambda *arguments: (0, "...\n12 passed in 3s\n"))
    return monkeypatch


def answered(environment):
    kernel = environment.get("OPENBLAS_CORETYPE", "Zen")
    return [["openblas", kernel, int(environment["OPENBLAS_NUM_THREADS"])]] * 2


def test_what_the_probe_finds_is_what_was_asked_for():
    """In a separate process, since OpenBLAS looks once, when it is loaded."""
    found = other_processors.probed(Choice(None).environment())
    assert found
    assert all(threads == 1 for _, _, threads in found)


def test_one_line_a_kernel(machine, capsys):
    assert other_processors.main() == 0
    assert capsys.readouterr().out.splitlines() == [
        "SkylakeX: SKIPPED, this processor has no avx512f, avx512cd, avx512bw, avx512dq, avx512vl",
        "Nehalem: openblas Nehalem on 1, openblas Nehalem on 1: 12 passed in 3s",
        "Haswell, 2 threads: openblas Haswell on 2, openblas Haswell on 2: 12 passed in 3s",
    ]


def test_every_case_is_in_one_share_and_every_test_in_all(request):
    names = [*(f"a.py::test_many[{case}]" for case in range(5)), "a.py::test_two[x]", "a.py::test_two[y]", "a.py::test"]
    items = [SimpleNamespace(nodeid=name) for name in names]
    kept, deselected = [], []
    for part in (1, 2):
        hook = SimpleNamespace(pytest_deselected=lambda items: deselected.append(len(items)))
        config = SimpleNamespace(getoption=lambda name, part=part: f"{part}/2" if name == "share" else None, hook=hook)
        share = list(items)
        _conftest(request).pytest_collection_modifyitems(config, share)
        kept.append([item.nodeid for item in share])
    assert sorted({*kept[0], *kept[1]}) == sorted(names)
    assert set(kept[0]) & set(kept[1]) == {"a.py::test"}
    assert [len(share) for share in kept] == [5, 4]
    assert deselected == [3, 4]


def test_a_kernel_whose_tests_fail_fails_and_shows_them(machine, capsys):
    def some(environment, paths, processes, share):
        failed = environment.get("OPENBLAS_CORETYPE") == "Nehalem"
        return (1, "E  1 != 2\n1 failed in 3s\n") if failed else (0, "12 passed in 3s\n")

    machine.setattr(other_processors, "tested", some)
    assert other_processors.main() == 1
    said = capsys.readouterr().out
    assert "Nehalem: FAILED with openblas Nehalem on 1, openblas Nehalem on 1: 1 failed in 3s\nE  1 != 2" in said
    assert "Haswell, 2 threads: openblas Haswell on 2" in said


def test_a_kernel_that_is_not_taken_fails_without_a_test(machine, capsys):
    machine.setattr(other_processors, "tested", lambda *arguments: pytest.fail("tested all the same"))
    machine.setattr(
        other_processors, "probed", lambda environment: [["openblas", "Zen", int(environment["OPENBLAS_NUM_THREADS"])]]
    )
    machine.setattr(other_processors, "CHOICES", {"x86_64": (HASWELL,)})
    assert other_processors.main() == 1
    assert "Haswell, 2 threads: FAILED, the choice was not taken: openblas took Zen" in capsys.readouterr().out


def test_the_tests_are_there_and_marked(request):
    """Every name of the list is a file or a folder with tests, and nothing else is marked."""
    conftest = _conftest(request)
    for name in conftest.NUMERICAL:
        path = ROOT / "tests" / name
        assert path.is_file() or list(path.rglob("test_*.py")), name
    for name, expected in {
        "problems/test_another_rounding.py": ["numerical"],
        "substrate/fits/test_variation.py": ["numerical"],
        "substrate/fits_of_another_kind/test_variation.py": [],
        "test_readme.py": [],
    }.items():
        item = _Item(ROOT / "tests" / name)
        conftest.pytest_itemcollected(item)
        assert item.marked == expected, name


def _conftest(request):
    return next(
        plugin
        for plugin in request.config.pluginmanager.get_plugins()
        if getattr(plugin, "__file__", None) and Path(plugin.__file__) == ROOT / "tests" / "conftest.py"
    )


class _Item:
    """What the hook needs of a collected test."""

    def __init__(self, path):
        self.path, self.marked = path, []
        self.nodeid = path.relative_to(ROOT).as_posix() + "::test"

    def add_marker(self, marker):
        self.marked.append(marker.name)
