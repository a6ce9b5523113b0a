"""What the paper on weighted LS-SVMs reports, over seeds (``pytest -m slow``): what reproduces, and what does not."""

import pytest

from problems.reproductions import STUDIES
from substrate.progress import Progress

pytestmark = pytest.mark.slow


def measured(name, seeds):
    return STUDIES[f"suykens2002-{name}"].run(seeds, False, Progress(seeds, shown=False)).measured


def test_weights_help_against_outliers_and_beat_the_tuned_svm():
    """:place [Suykens2002]_ section 5: over twenty seeds (slow)."""
    errors = measured("outliers", 5)
    assert errors.wins("weighted LS-SVM", "LS-SVM") == 5
    assert errors.mean("weighted LS-SVM") < 0.5 * errors.mean("LS-SVM")
    assert errors.mean("weighted LS-SVM") < errors.mean("SVM")


def test_about_20_support_vectors_are_too_few_even_with_retuning():
    errors = measured("pruning", 5)
    anew = "rows, gamma and sigma searched again"
    assert errors.mean(f"50 {anew}") < errors.mean("LS-SVM, all rows")
    assert errors.mean(f"20 {anew}") > 3.0 * errors.mean("weighted LS-SVM, all rows")


def test_weights_help_a_little_against_heavy_tails():
    errors = measured("heavy-tails", 8)
    assert errors.mean("weighted LS-SVM") < 1.1 * errors.mean("LS-SVM")
    assert 2 <= errors.wins("weighted LS-SVM", "LS-SVM") <= 8


def test_weights_do_not_help_on_the_motorcycle_and_boston_data():
    errors = measured("motorcycle", 1)
    assert errors.mean("weighted LS-SVM") > 0.95 * errors.mean("LS-SVM")
    assert measured("boston", 20).wins("weighted LS-SVM", "LS-SVM") <= 10
