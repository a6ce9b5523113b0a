"""The architecture as laws: one direction of imports, cheap imports, and pages that name everything there is."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import problems
import substrate
from problems.command_line.verify import eigen_modules, problem_modules

ROOT = Path(__file__).resolve().parent.parent

#: From the ground up. A package's name stands for all its files; a file imports from its floor and lower ones.
FLOORS: tuple[tuple[str, ...], ...] = (
    (
        "substrate.errors",
        "substrate.numbers",
        "substrate.arrays",
        "substrate.whole_file",
        "substrate.progress",
        "substrate.values",
        "substrate.robust_weights",
    ),
    ("substrate.certificate", "substrate.balls", "substrate.basis"),
    ("substrate.ingredients",),
    ("substrate.kernels",),
    ("substrate.datasets", "substrate.codings", "substrate.conventions", "substrate.windows", "substrate.files"),
    ("substrate.operators",),
    ("substrate.losses", "substrate.penalties"),
    ("substrate.fits",),
    ("substrate.bounds",),
    ("substrate.left_out",),
    ("substrate.intervals", "substrate.spectral"),
    ("substrate.select",),
    ("substrate.declare",),
    ("substrate.shapes", "substrate.fusion"),
    ("substrate",),  # the root: its version, its name, and what it looks up in the packages below
    ("problems.demonstration",),
    ("a problem file",),
    ("problems.estimators",),
    ("problems.estimators.shared",),
    ("problems.estimators.full", "problems.estimators.reduced_fit", "problems.estimators.reduced_ls_svm"),
    ("problems.estimators.kernel_machine",),
    ("problems.estimators.column_reduced", "problems.estimators.machine"),
    ("problems.estimators.penalised",),
    ("problems.estimators.chosen",),
    ("problems.estimators.components", "problems.estimators.two_views", "problems.estimators.pruned"),
    ("problems.estimators.narx",),
    ("problems.tables",),
    ("problems",),  # the root: all estimators and pages, looked up on demand
    ("problems.export",),
    ("problems.displays",),
    ("problems.command_line",),
)
#: The roots stand for themselves only: a new file below one of them must be given a floor.
ROOTS = ("substrate", "problems")
_PAGES = {f"problems.{page}" for page in problems.PAGES}
#: Files that look names up at run time, with all that they may find: these arrows count like those that are written.
LOOKED_UP = {
    "problems": _PAGES
    | set(problems.ESTIMATORS.values())
    | set(problems.COMPOSED.values())
    | set(problems.SPECTRAL.values()),
    "problems.command_line.verify": _PAGES,
    "substrate": set(substrate._HOMES.values()),
}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for root in ROOTS for path in sorted((ROOT / root).rglob("*.py"))}
PACKAGES = {name for name, path in FILES.items() if path.name == "__init__.py"}


class _Trees(dict[str, ast.Module]):
    """Every file, parsed when it is asked for: every worker pays for what is done at import."""

    def __missing__(self, name: str) -> ast.Module:
        self[name] = ast.parse(FILES[name].read_text(encoding="utf-8"), str(FILES[name]))
        return self[name]


TREES = _Trees()


def statements(tree: ast.AST) -> Iterable[ast.AST]:
    """The statements of a file, and the handlers and cases around some: a tenth of all nodes of its tree."""
    yield tree
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        parts = getattr(tree, field, ())
        for part in parts if isinstance(parts, list) else ():
            yield from statements(part)


def assigned_names(tree: ast.Module) -> set[str]:
    return {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def targets(name: str, nodes: Iterable[ast.AST]) -> set[str]:
    """The files of ours that these statements of a file import by name."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            home = name.split(".") if name in PACKAGES else name.split(".")[:-1]
            above = home[: len(home) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            children = {f"{base}.{alias.name}" for alias in node.names}
            found |= {child for child in children if child in FILES}
            if any(child not in FILES for child in children):
                found.add(base)
    return {target for target in found if target.split(".")[0] in ROOTS}


def ancestors(name: str) -> set[str]:
    parts = name.split(".")
    return {".".join(parts[:k]) for k in range(1, len(parts))}


def imports_of(name: str) -> set[str]:
    """What a file imports, at once or later: the files named, those it may look up, and the packages around them."""
    named = targets(name, statements(TREES[name])) | LOOKED_UP.get(name, set())
    above = {package for target in named for package in ancestors(target)} - ancestors(name) - {name}
    return named | above


class _Graph(dict[str, set[str]]):
    def __missing__(self, name: str) -> set[str]:
        self[name] = imports_of(name)
        return self[name]


GRAPH = _Graph()


def floor_of(name: str) -> int | None:
    """The floor of the file, or else of the nearest package around it that has one; a root stands for itself only."""
    if (
        name.startswith("problems.")
        and name.count(".") == 1
        and {"DEMONSTRATION", "EIGENPROBLEM"} & assigned_names(TREES[name])
    ):
        return FLOORS.index(("a problem file",))
    homes = [name, *sorted(ancestors(name) - set(ROOTS), key=len, reverse=True)]
    return next((number for home in homes for number, members in enumerate(FLOORS) if home in members), None)


def test_the_walk_finds_the_files():
    assert len(FILES) > 40
    assert {"substrate.operators.gram", "problems.ls_svm_regression", "problems.command_line.main"} <= set(FILES)
    assert "substrate.bounds.proof" in GRAPH["problems.estimators.shared.base"], "the deferred import is seen"
    assert {"substrate.declare.machine", "substrate.fusion"} <= GRAPH["substrate"], "and what a root looks up"
    assert {"problems.l1_substrate", "problems.estimators.chosen.selection"} <= GRAPH["problems"]
    assert "problems.l1_substrate" in GRAPH["problems.command_line.verify"], "what is looked up is seen"


def test_a_room_of_a_package_has_its_own_floor():
    assert floor_of("problems.estimators.shared.base") < floor_of("problems.estimators.chosen.selection")
    assert (
        floor_of("problems.estimators.chosen.selection")
        < floor_of("problems")
        < floor_of("problems.displays.evolution")
    )


def test_every_file_has_a_floor():
    nowhere = [name for name in FILES if floor_of(name) is None]
    assert nowhere == [], "these stand on no floor: give them one in FLOORS"


def test_every_floor_has_a_file():
    empty = [member for members in FLOORS for member in members if member != "a problem file" and member not in FILES]
    assert empty == []


def test_imports_go_one_way():
    arrows = [(name, target) for name in FILES for target in sorted(GRAPH[name])]
    unknown = [(name, target) for name, target in arrows if target not in FILES]
    assert unknown == [], "imports of what does not exist"
    floors = {name: floor_of(name) for name in FILES}
    nowhere = [name for name, floor in floors.items() if floor is None]
    assert nowhere == [], "no floor, so no direction"
    upward = [(name, target) for name, target in arrows if floors[target] > floors[name]]
    assert upward == [], "imports from a floor above the file's own"


def test_substrate_does_not_know_problems():
    guilty = {
        name: sorted(target for target in GRAPH[name] if target.split(".")[0] == "problems")
        for name in FILES
        if name.split(".")[0] == "substrate"
    }
    assert {name: found for name, found in guilty.items() if found} == {}


def cycle_in(graph: dict[str, set[str]]) -> list[str]:
    """One cycle, or nothing."""
    done: set[str] = set()

    def visit(name: str, trail: list[str]) -> list[str]:
        if name in trail:
            return [*trail[trail.index(name) :], name]
        if name in done:
            return []
        for target in sorted(graph[name]):
            if found := visit(target, [*trail, name]):
                return found
        done.add(name)
        return []

    for name in sorted(graph):
        if found := visit(name, []):
            return found
    return []


def test_no_file_imports_itself_by_a_detour():
    assert cycle_in({name: GRAPH[name] for name in FILES}) == []


def at_import(name: str) -> list[ast.AST]:
    """The nodes of a file that run when it is imported: those in no function."""
    found: list[ast.AST] = [TREES[name]]
    for node in found:
        found += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.FunctionDef)]
    return found


def brings(name: str, foreign: str) -> bool:
    nodes = at_import(name)
    named = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    named += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return any(module.split(".")[0] == foreign for module in named)


def test_estimators_ask_for_pages_only_when_they_declare_one():
    """Pages bring cvxpy, and whoever uses a closed form must not pay for it."""
    loads = {name: targets(name, at_import(name)) for name in FILES}
    reached = {*problems.ESTIMATORS.values(), *problems.SPECTRAL.values()}
    while new := set().union(*(loads[name] for name in reached)) & set(FILES) - reached:
        reached |= new
    assert sorted(reached & {f"problems.{page}" for page in problems.PAGES}) == []
    assert sorted(name for name in reached if brings(name, "cvxpy")) == []
    assert brings("problems.ls_svm_regression", "cvxpy"), "the check can fail"


def test_names_are_looked_up_at_run_time_only_where_it_is_meant():
    found = {
        name
        for name in FILES
        if re.search(r"\bimport_module\b|\b__import__\b", FILES[name].read_text(encoding="utf-8"))
        for node in ast.walk(TREES[name])
        if (isinstance(node, ast.Name) and node.id in ("import_module", "__import__"))
        or (isinstance(node, ast.Attribute) and node.attr == "import_module")
    }
    assert found == set(LOOKED_UP)


def test_every_exported_name_can_be_had():
    assert all(getattr(problems, name) is not None for name in problems.__all__)
    assert set(problems.__all__) == set(dir(problems))


def test_every_problem_file_is_exported():
    assert {*problem_modules(), *eigen_modules()} == set(problems.PAGES)


def test_one_line_registers_a_name_and_all_else_follows():
    named = {*problems.ESTIMATORS, *problems.SPECTRAL, *problems.COMPOSED, *problems.PAGES, "load"}
    assert set(problems.__all__) == named
    space: dict[str, object] = {}
    exec("from problems import *", space)
    assert set(problems.__all__) <= set(space)
    registered = {**problems.ESTIMATORS, **problems.SPECTRAL, **problems.COMPOSED}
    homes = {name: getattr(problems, name).__module__ for name in registered}
    assert homes == registered, "each lives where its line says"


def run(code: str, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def loaded_by(code: str, *names: str) -> str:
    report = f"import sys; print(*[name for name in {names!r} if name in sys.modules])"
    done = run(f"{code}\n{report}")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


FIT = """
import numpy as np
from problems import LSSVMRegressor
X = np.linspace(0.0, 1.0, 12).reshape(-1, 1)
model = LSSVMRegressor().fit(X, X.ravel() ** 2)
model.predict(X), str(model.certificate_), model.certify(X, X.ravel() ** 2)
"""


def test_an_estimator_is_imported_without_what_few_fits_need():
    iterations = ("substrate.fits.conjugate_gradient",)
    asked = ("substrate.bounds.proof", "problems.estimators.shared.linear_part")
    found = loaded_by("from problems import LSSVMClassifier, LSSVMRegressor", *iterations, *asked)
    assert found == "problems.estimators.shared.linear_part", "the check can fail"


def test_neither_imports_nor_the_closed_form_pay_for_cvxpy_or_for_devices():
    assert loaded_by(FIT, "cvxpy", "clarabel", "osqp", "array_api_compat", "torch", "cupy") == ""


def test_the_ground_floors_cost_numpy_only():
    code = "import substrate, substrate.kernels, substrate.datasets, substrate.certificate\n"
    code += "from substrate.basis import Basis\nBasis()"
    assert loaded_by(code, "scipy", "sklearn", "cvxpy", "pandas", "matplotlib") == ""


CITED = re.compile(r"\[([A-Z][A-Za-z]+[0-9]{4}[a-z]?)\]")


def docstrings(tree: ast.AST) -> list[str]:
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [ast.get_docstring(node) or "" for node in statements(tree) if isinstance(node, owners)]


def test_every_citation_is_on_the_references_page():
    listed = set(CITED.findall((ROOT / "docs" / "references.md").read_text(encoding="utf-8")))
    cited = {name: {key for text in docstrings(TREES[name]) for key in CITED.findall(text)} for name in FILES}
    assert {"Pelckmans2005", "Suykens2002"} <= set().union(*cited.values()), "citations are found"
    assert {name: sorted(keys - listed) for name, keys in cited.items() if keys - listed} == {}


def test_the_page_of_models_names_every_problem_and_every_estimator():
    named = set(re.findall(r"\w+", (ROOT / "docs" / "models.md").read_text(encoding="utf-8")))
    estimators = {*problems.ESTIMATORS, *problems.SPECTRAL}
    assert sorted((estimators | set(problem_modules())) - named) == []
