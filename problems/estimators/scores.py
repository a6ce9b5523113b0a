"""``score`` wherever the rows are: scikit-learn's own measures, given numpy."""

from typing import Any

from sklearn.base import ClassifierMixin, RegressorMixin

from substrate.namespaces import is_device_array, same_home, to_numpy

__all__ = ["ScoredClassifier", "ScoredRegressor"]


class ScoredRegressor(RegressorMixin):
    """R^2 of predictions."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2 of the predictions of X against y; targets and weights are where X is."""
        if not is_device_array(X):
            return float(super().score(X, y, sample_weight))
        from sklearn.metrics import r2_score  # as scikit-learn does: only who scores pays for it

        return float(r2_score(*_on_host(self, X, y, sample_weight), sample_weight=to_numpy(sample_weight)))


class ScoredClassifier(ClassifierMixin):
    """Accuracy of predictions."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose class is predicted; labels and weights are where X is."""
        if not is_device_array(X):
            return float(super().score(X, y, sample_weight))
        from sklearn.metrics import accuracy_score

        return float(accuracy_score(*_on_host(self, X, y, sample_weight), sample_weight=to_numpy(sample_weight)))


def _on_host(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
    """What is known and what is predicted, in numpy."""
    same_home(X=X, y=y, sample_weight=sample_weight)
    return to_numpy(y), to_numpy(model.predict(X))
