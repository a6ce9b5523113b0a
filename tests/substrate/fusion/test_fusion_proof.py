"""A proof of a fusion is a file: checked again without a solver, in doubles and in balls, and refused once changed."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from sampled_cases import first
from user_problems import USER_PROBLEMS, elastic_net, user_problem

from substrate import Machine, Substrate, fuse, fuse_problem
from substrate.errors import DataError
from substrate.fusion import FusionProof, check_fusion, prove_fusion
from substrate.kernels import RBF


@pytest.fixture(scope="module")
def fused():
    weight, problem, validation = user_problem(elastic_net, 0)
    return fuse_problem(problem, {weight: (1e-2, 1e2)}, validation, gap=0.05), problem, validation


def without_solvers(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("something was solved")

    monkeypatch.setattr("clarabel.DefaultSolver", refuse)
    monkeypatch.setattr("cvxpy.Problem.solve", refuse)


def test_another_person_checks_it_from_the_file(fused, tmp_path, monkeypatch):
    best, problem, validation = fused
    best.proof.save(tmp_path / "proof.npz")
    without_solvers(monkeypatch)
    certificate = check_fusion(tmp_path / "proof.npz")
    assert certificate.holds, str(certificate)
    assert "no value below" in str(certificate).splitlines()[0]
    proof = FusionProof.load(tmp_path / "proof.npz")
    assert proof.lower_bound == best.lower_bound
    assert proof.values == best.values
    assert proof.matches(problem, validation)
    assert not proof.matches(problem, 2.0 * validation)
    best.proof.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "proof.npz").read_bytes()


def test_it_is_proved_in_balls(fused, tmp_path, monkeypatch):
    pytest.importorskip("flint")
    fused[0].proof.save(tmp_path / "proof.npz")
    without_solvers(monkeypatch)
    certificate = prove_fusion(tmp_path / "proof.npz")
    assert certificate.holds, str(certificate)
    assert dict(certificate.record)["how"] == "proved in balls of 160 bits"


@pytest.mark.parametrize("kind", first(2, USER_PROBLEMS[1:]), ids=lambda kind: kind.__name__)
def test_proofs_of_users_problems(kind):
    weight, problem, validation = user_problem(kind, 0)
    best = fuse_problem(problem, {weight: (1e-2, 1e2)}, validation, gap=0.05)
    assert best.proof.check().holds, str(best.proof.check())
    pytest.importorskip("flint")
    assert best.proof.prove().holds, str(best.proof.prove())


def test_machines_and_folds(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(14, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=14)

    def build(X, y):
        s, C = Substrate(RBF(1.0), X, y), cp.Parameter(nonneg=True, name="C")
        return Machine(s, minimize=0.5 * s.squared_norm + C * cp.sum(cp.huber(s.e, 0.3)))

    best = fuse(build, over="C", data=(X, y), cv=2, gap=0.1, box={"C": (0.1, 10.0)})
    best.proof.save(tmp_path / "proof.npz")
    certificate = check_fusion(tmp_path / "proof.npz")
    assert certificate.holds, str(certificate)
    assert len(best.proof.folds) == 2
    bound = best.proof.lower_bound
    assert bound == best.lower_bound


def test_two_weights():
    rng = np.random.default_rng(0)
    X, V = rng.normal(size=(15, 3)), rng.normal(size=(15, 3))
    y, u = (P[:, 0] + 0.5 * rng.normal(size=15) for P in (X, V))
    one, two = (cp.Parameter(nonneg=True, name=name) for name in ("one", "two"))
    x = cp.Variable(3)
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(X @ x - y) + one * cp.norm1(x) + two * cp.sum_squares(x)))
    best = fuse_problem(problem, {one: (0.5, 5.0), two: (0.5, 5.0)}, cp.sum_squares(V @ x - u) / 15, gap=0.2)
    assert best.proof.check().holds, str(best.proof.check())
    hole = replace(best.proof, cells=best.proof.cells[1:])
    assert "cover" in dict(hole.check().record)["proved"]


def tube(rows=10, seed=0):
    """A tube of width eps, with the weight C of what is outside: its machine, and rows that validate."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(2 * rows, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=2 * rows)
    s, slack = Substrate(RBF(1.0), X[:rows], y[:rows]), cp.Variable(rows, nonneg=True)
    C, eps = (cp.Parameter(nonneg=True, name=name, value=2.0) for name in ("C", "eps"))
    rule = cp.abs(s.e) <= eps + slack
    return Machine(s, minimize=0.5 * s.squared_norm + C * cp.sum(slack), subject_to=[rule]), (X[rows:], y[rows:])


@pytest.mark.parametrize(("over", "gap"), [(("eps",), 0.05), (("C", "eps"), 0.4)], ids=["eps", "C and eps"])
def test_parameters_in_constraints(over, gap, tmp_path, monkeypatch):
    machine, (X, y) = tube()
    box = {"C": (0.5, 5.0), "eps": (0.01, 0.6)}
    best = fuse(machine, over=over, validation=(X, y), gap=gap, box={name: box[name] for name in over})
    best.proof.save(tmp_path / "proof.npz")
    shares = np.random.default_rng(0).uniform(size=(12, 2))
    tried = [{"C": 0.5 + 4.5 * c if "C" in over else 2.0, "eps": 0.01 + 0.59 * t} for c, t in shares.tolist()]
    errors = [float(np.mean((y - machine.solve(**values).predict(X)) ** 2)) for values in tried]
    without_solvers(monkeypatch)
    proof = FusionProof.load(tmp_path / "proof.npz")
    certificate = proof.check()
    assert certificate.holds, str(certificate)
    assert proof.placed == (len(over) - 1,)
    assert min(errors) >= proof.lower_bound * (1.0 - 1e-9)
    if len(over) == 1:
        pytest.importorskip("flint")
        assert proof.prove().holds
    assert not replace(proof, cells=proof.cells[1:]).check().holds
    if len(over) == 2:
        turned = proof.columns.copy()
        turned[0] = turned[0, ::-1]
        assert "not those of a simplex" in dict(replace(proof, columns=turned).check().record)["proved"]
    longer = tuple(replace(fold, both=replace(fold.both, b_steps=3.0 * fold.both.b_steps)) for fold in proof.folds)
    assert not replace(proof, folds=longer).check().holds


def test_a_dual_point_of_one_corner_proves_nothing_of_the_range():
    """The smallest over the corners counts: the first one alone would state a bound above the truth, which is one."""
    from substrate.fusion import fusion_proof
    from substrate.fusion.fused_family import FusedFamily

    x, r = cp.Variable(), cp.Parameter(nonneg=True, name="r")
    problem, validation = cp.Problem(cp.Minimize((x - 3.0) ** 2), [x <= r]), (x - 1.6) ** 2 + 1.0
    proof = fuse_problem(problem, {r: (1.0, 2.0)}, validation, gap=0.05).proof
    assert proof.check().holds
    fold, family = proof.folds[0], FusedFamily(problem, [r], validation)
    first = proof.thetas[proof.columns[0], 0]
    number = [int(column) for column in fold.places[:, 0]].index(0)
    s = float(fold.places[number, 1])
    point = family.both.at((float(first[0]),)).solve((1.0 / s,))
    forged = fold.fused.copy()
    forged[number] = np.concatenate(point)
    changed = replace(proof, folds=(replace(fold, fused=forged),))
    program = fusion_proof._ProgramInBalls(fold.both, fusion_proof.Double)
    n = fold.both.q.shape[1]
    bounds = program.lower_bounds(np.array([1.0, 1.0 / s]), forged[number, :n], forged[number, n:], first[:, None])
    values = [(3.0 - end) ** 2 for end in first]
    h = [s * (bound - value) for bound, value in zip(bounds, values, strict=True)]
    assert max(h) > 1.0 > min(h)
    assert changed.bound() <= 1.0


def spoilt(proof, name, change):
    fold = proof.folds[0]
    changed = getattr(fold, name).copy()
    change(changed)
    return replace(proof, folds=(replace(fold, **{name: changed}), *proof.folds[1:]))


def test_what_was_changed_is_noticed(fused):
    proof = fused[0].proof
    assert not replace(proof, lower_bound=1.05 * proof.lower_bound).check().holds
    assert not replace(proof, cells=proof.cells[:-1]).check().holds
    assert not replace(proof, box=((1e-3, 1e2),)).check().holds
    assert not replace(proof, validation_error=2.0 * proof.validation_error).check().holds
    n = proof.folds[0].both.q.shape[1]
    for name, change in (
        ("fused", lambda points: np.negative(points[:, n:], out=points[:, n:])),
        ("fused", lambda points: np.multiply(points, 1.5, out=points)),
        ("points", lambda points: np.add(points, 1.0, out=points)),
        ("places", lambda places: np.multiply(places[:, 1], 3.0, out=places[:, 1])),
    ):
        certificate = spoilt(proof, name, change).check()
        assert not certificate.holds, name
        assert "DOES NOT HOLD" in str(certificate).splitlines()[0]


def test_a_program_that_is_not_convex_proves_nothing(fused):
    proof = fused[0].proof
    fold = proof.folds[0]
    bent = replace(fold.both, P=(-1.0 * fold.both.P[0], *fold.both.P[1:]))
    found = replace(proof, folds=(replace(fold, both=bent),)).check()
    assert "not convex" in dict(found.record)["proved"]


def test_other_files_are_refused(fused, tmp_path):
    from problems import LSSVMRegressor

    X = np.linspace(0.0, 1.0, 8)[:, None]
    LSSVMRegressor(RBF(1.0)).fit(X, X[:, 0]).save(tmp_path / "model.npz")
    with pytest.raises(DataError, match="not a saved proof of a fusion"):
        check_fusion(tmp_path / "model.npz")
    proof = replace(fused[0].proof, thetas=fused[0].proof.thetas[:-1])
    with pytest.raises(DataError, match="do not fit together"):
        proof.save(tmp_path / "short.npz")
    assert not (tmp_path / "short.npz").exists()


def test_a_large_program_is_not_proved_in_balls(fused, monkeypatch):
    pytest.importorskip("flint")
    monkeypatch.setattr("substrate.fusion.fusion_proof._MOST_ENTRIES", 10)
    with pytest.raises(DataError, match="use check"):
        fused[0].proof.prove()
