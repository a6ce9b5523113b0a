"""The pages of the documentation that move: (29) is drawn as it is solved, and every page is whole."""

import base64
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from problems import fused_maximal_variation
from problems.maximal_variation import declare

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def moving_pages():
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    try:
        import moving_pages
    finally:
        sys.path.pop(0)
    return moving_pages


def numbers_of(text):
    (found,) = re.findall(r'id="numbers">(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


def decoded(text):
    return np.frombuffer(base64.b64decode(text), dtype="<f8")


@pytest.mark.parametrize(("rho", "weight"), [(0.5, 1.0), pytest.param(1.0, 4.0, marks=pytest.mark.slow)])
def test_the_point_of_29_is_the_one_that_a_solver_finds(moving_pages, rho, weight):
    given = {"K": [np.eye(2)], "y": np.array([1.0, -1.0]), "K_val": np.array([[2.0, 0.0]]), "y_val": np.array([4.0])}
    solved = fused_maximal_variation.declare(**given, rho=rho, weight=weight).solve()
    a = float(moving_pages.fuse_at(rho, weight))
    np.testing.assert_allclose(solved.support_values, [a, -a], atol=1e-5)
    value = moving_pages.error(a) + weight * moving_pages.penalty(a, rho)
    assert solved.problem.value == pytest.approx(value, abs=1e-6)


def test_a_trained_machine_has_no_penalty_and_is_the_solution_of_25(moving_pages):
    rho = np.linspace(0.0, 3.0, 13)
    np.testing.assert_allclose(moving_pages.penalty(moving_pages.train(rho), rho), 0.0, atol=1e-15)
    solved = declare(K=[np.eye(2)], y=np.array([1.0, -1.0]), rho=0.7).solve()
    a = float(moving_pages.train(0.7))
    np.testing.assert_allclose(solved.support_values, [a, -a], atol=1e-5)


def test_the_page_of_29_begins_where_its_value_is_smallest(moving_pages):
    text = moving_pages.not_convex()
    data = numbers_of(text)
    stops = decoded(data["stops"])
    assert stops[data["start"]] == 0.5
    curves = {one["name"]: decoded(one["values"]) for one in data["curves"]}
    assert curves["(29), weight 1: value"].min() == pytest.approx(3.5)
    assert curves["(29), weight 1: sum of products"][data["start"]] == pytest.approx(1.25)
    for weight in ("2", "4"):
        assert curves[f"(29), weight {weight}: value"].min() == pytest.approx(4.0)
    assert curves["(28): validation error of the trained machine"].min() == 4.0
    rows = decoded(data["state"]["rows"]).reshape(stops.size, -1)
    for k, weight in enumerate(moving_pages.WEIGHTS):  # linear between its stops
        middle = (stops[1:] + stops[:-1]) / 2.0
        np.testing.assert_allclose(moving_pages.fuse_at(middle, weight), (rows[1:, k + 1] + rows[:-1, k + 1]) / 2.0)


@pytest.mark.slow
def test_all_pages_are_written(moving_pages, tmp_path):
    moving_pages.write(tmp_path)
    names = ["drag.html", "gamma.html", "not_convex.html", "rho.html"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    linked = re.findall(r'href="moving/(\w+\.html)"', (ROOT / "docs" / "index.md").read_text(encoding="utf-8"))
    assert sorted(linked) == names
    for path in tmp_path.iterdir():
        assert path.stat().st_size < 5_000_000
        if path.name != "drag.html":  # it computes its numbers itself
            assert numbers_of(path.read_text(encoding="utf-8"))["panels"]
