"""Bars of a certificate: their ends are the logarithms, their marks the verdicts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError

from problems import LSSVMRegressor
from problems.displays import CertificateDisplay
from substrate.certificates import Certificate, Row
from substrate.errors import DeclarationError

ROWS = (
    Row("good", 1e-12, 1.0, 1e-9, ""),
    Row("zero", 0.0, 1.0, 1e-9, ""),
    Row("bad", 2.0, 20.0, 1e-9, ""),
    Row("unknown", np.inf, 1.0, 1e-9, ""),
)


def test_the_bars_are_logarithms_of_residual_over_tolerance(plt):
    display = CertificateDisplay.from_certificate(Certificate("made up", ROWS))
    assert_allclose(display.margins, [-3.0, -np.inf, 8.0, np.inf])
    widths = [bar.get_width() for bar in display.bars_]
    assert_allclose([widths[0], widths[2]], [-3.0, 8.0])
    assert widths[1] < -3.0
    assert widths[3] > 8.0
    low, high = display.ax_.get_xlim()
    assert low < min(widths)
    assert max(widths) < high
    assert [bool(bar.get_hatch()) for bar in display.bars_] == [False, False, True, True]
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["good", "zero", "bad", "unknown"]
    assert [text.get_text() for text in display.ax_.texts] == ["", "exactly 0", "FAILS", "FAILS: no number"]
    assert display.ax_.get_title() == "made up: DOES NOT HOLD\nno bound on the answer"
    assert "log10 (residual / tolerance)" in display.ax_.get_xlabel()


def test_the_certificate_of_a_model(plt):
    X = np.linspace(0.0, 1.0, 12)[:, None]
    model = LSSVMRegressor().fit(X, X[:, 0] ** 2)
    _, ax = plt.subplots()
    display = CertificateDisplay.from_estimator(model, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert len(display.bars_) == len(model.certificate_.rows)
    verdict, *promise = display.ax_.get_title().splitlines()
    assert verdict.endswith(": holds")
    assert " ".join(promise) == model.certificate_.promise
    assert max(map(len, promise)) <= 72, "no line is wider than the picture"
    assert (display.margins <= 0.0).all()
    assert display.plot().ax_ is not ax


def test_refusals(plt):
    with pytest.raises(DeclarationError, match=r"draws a Certificate, such as model\.certificate_; received 3"):
        CertificateDisplay.from_certificate(3)
    with pytest.raises(DeclarationError, match="'empty' has no rows"):
        CertificateDisplay.from_certificate(Certificate("empty", ()))
    with pytest.raises(NotFittedError):
        CertificateDisplay.from_estimator(LSSVMRegressor())
    with pytest.raises(DeclarationError, match="CertificateDisplay draws the certificate of any estimator"):
        CertificateDisplay.from_estimator(object())
    assert plt.get_fignums() == []
