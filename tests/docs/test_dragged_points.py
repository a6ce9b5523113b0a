"""The page on which points are dragged: its script solves as the package does, and its bound is true."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import mpmath
import numpy as np
import pytest

from problems import LSSVMRegressor
from substrate.kernels import RBF

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "interactive" / "drag.html"
SCRIPT = PAGE.with_name("dragged_points.js")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
#: Reads cases, and writes machines, their certificates, and the certificates of spoiled machines.
PROGRAM = """
const { solve, certify, predict } = require(process.argv[1]);
const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(cases.map(({ x, y, sigma, gamma }) => {
  const machine = solve(x, y, sigma, gamma);
  const spoiled = { ...machine, alpha: machine.alpha.map((a, i) => (i === 0 ? a + 1e-3 : a)) };
  // where K = I its residual is zero, and its bias is off by 7: what 1'alpha lacks of zero has to say so
  const shifted = { alpha: y.map((value) => (value - machine.bias - 7) / (1 + 1 / gamma)), bias: machine.bias + 7 };
  return { ...machine, at: predict(0.3, x, sigma, machine), right: certify(x, y, sigma, gamma, machine),
    wrong: [spoiled, shifted].map((one) => certify(x, y, sigma, gamma, one)) };
})));
"""


def cases():
    rng = np.random.default_rng(0)
    x, noise = np.sort(rng.uniform(0.0, 10.0, 12)), rng.normal(size=12)
    wave = np.sin(x) + 0.2 * noise
    listed = [(x, wave, sigma, gamma) for sigma in (0.2, 1.5, 10.0) for gamma in (0.01, 30.0, 1e5)]
    listed += [(x, scale * wave + offset, 1.5, 30.0) for scale, offset in ((1e9, 0.0), (1e-9, 0.0), (1.0, 1e8))]
    listed += [(np.repeat(x[:4], 3), wave, 1.5, 1e5), (x[:2], wave[:2], 1.5, 30.0), (x, np.full(12, 3.0), 1.5, 30.0)]
    listed.append((x, wave, 1e-3, 30.0))
    return [
        {"x": list(map(float, a)), "y": list(map(float, b)), "sigma": sigma, "gamma": gamma}
        for a, b, sigma, gamma in listed
    ]


@pytest.fixture(scope="module")
def solved():
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed, and the script of the page runs there")
    given = cases()
    run = subprocess.run(
        [node, "-e", PROGRAM, str(SCRIPT)], input=json.dumps(given), capture_output=True, text=True, check=True
    )
    return list(zip(given, json.loads(run.stdout), strict=True))


def exact_fit(case):
    """The fitted values of the exact optimum, by sixty digits."""
    with mpmath.workdps(60):
        x, y = (mpmath.matrix(case[name]) for name in ("x", "y"))
        n, sigma, gamma = len(case["x"]), mpmath.mpf(case["sigma"]), mpmath.mpf(case["gamma"])
        K = mpmath.matrix(n, n)
        for i in range(n):
            for j in range(n):
                K[i, j] = mpmath.exp(-((x[i] - x[j]) ** 2) / sigma**2)
        bordered = mpmath.matrix(n + 1, n + 1)
        bordered[:n, :n] = K + mpmath.eye(n) / gamma
        for i in range(n):
            bordered[i, n] = bordered[n, i] = 1
        answer = mpmath.lu_solve(bordered, mpmath.matrix([*y, 0]))
        return [value + answer[n] for value in K * answer[:n]]


def distance(values, exact):
    with mpmath.workdps(60):
        squares = [(mpmath.mpf(value) - other) ** 2 for value, other in zip(values, exact, strict=True)]
        return mpmath.sqrt(sum(squares) / len(squares))


def test_the_bound_of_the_page_is_true_and_sees_what_is_wrong(solved):
    for case, answer in solved:
        exact = exact_fit(case)
        for certificate in (answer["right"], *answer["wrong"]):
            assert distance(certificate["fitted"], exact) <= certificate["accuracy"]
        assert answer["right"]["holds"]
        assert not answer["wrong"][1]["holds"] or np.abs(case["y"]).max() > 1e7
        if np.ptp(case["y"]) < 10.0 and case["gamma"] < 1e5 and np.ptp(case["y"]) > 1e-3:
            assert not answer["wrong"][0]["holds"]


def test_the_machine_of_the_page_is_that_of_the_package(solved):
    for case, answer in solved[:-1]:  # of the last the package warns: its kernel matrix is the identity
        X, y = np.array(case["x"])[:, None], np.array(case["y"])
        model = LSSVMRegressor(RBF(case["sigma"]), case["gamma"]).fit(X, y)
        assert model.certificate_.holds
        difference = np.sqrt(np.mean((model.predict(X) - answer["right"]["fitted"]) ** 2))
        assert difference <= answer["right"]["accuracy"] + model.certificate_.accuracy
        assert answer["right"]["spread"] == pytest.approx(model.certificate_.spread, rel=1e-9, abs=1e-12)
        assert answer["at"] == pytest.approx(model.predict([[0.3]])[0], rel=1e-6, abs=1e-6 * np.abs(y).max())


def test_the_page_solves_in_a_browser(tmp_path):
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        pytest.skip(f"no browser found ({', '.join(BROWSERS)}), in which the page would solve")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    shown = subprocess.run([browser, *options, PAGE.as_uri()], capture_output=True, text=True, check=True).stdout
    (verdict,) = re.findall(r'<p id="verdict"[^>]*>(.*?)</p>', shown)
    assert verdict.startswith("holds; fitted values within ")
    assert shown.count("<circle") == 8
    bias = float(re.findall(r'id="shown-bias">([^<]*)<', shown)[0])
    start = re.findall(r"const START = (\[\[.*?\]\]);", SCRIPT.read_text(encoding="utf-8"))[0]
    points = np.array(json.loads(start))
    model = LSSVMRegressor(RBF(10**0.2), 10**1.5).fit(points[:, :1], points[:, 1])
    assert bias == pytest.approx(float(model.bias_), abs=1e-4)
