"""Tables and frames as they come: how their columns are read, fitted and predicted, as ``substrate fit`` does it.

``from problems.tables import TabularRegressor`` is the same in Python.
"""

from typing import Any

__all__ = ["TabularClassifier", "TabularRegressor"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from problems.tables import estimators  # with scikit-learn, which the help of the command line does without

        return getattr(estimators, name)
    raise AttributeError(f"module 'problems.tables' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
