"""The parameters in a model file of release 0.1, whose format version is 1, in the words of this release."""

from typing import Any

__all__ = ["parameters_of_release_0_1", "renamed"]

#: What was called ``tol`` before that became the tolerance of the certificate.
_CALLED_TOL = {
    "AdaPinvClassifier": "adaline_tol",
    "ComponentwiseLSSVMClassifier": "cg_tol",
    "ComponentwiseLSSVMRegressor": "cg_tol",
    "LSSVMClassifier": "cg_tol",
    "LSSVMRegressor": "cg_tol",
    "RobustLSSVMRegressor": "weights_tol",
    "RobustSparseLSSVMRegressor": "weights_tol",
}
#: What that release did not know; a model from one of its files has the default.
_SINCE = {"tol", "zeta_min"}


def parameters_of_release_0_1(estimator: str, known: set[str]) -> set[str]:
    """The parameters that a file of release 0.1 has of an estimator, from those that it has now."""
    if estimator not in _CALLED_TOL:
        return known - _SINCE
    return known - {_CALLED_TOL[estimator]}  # its tol was another one


def renamed(estimator: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters of such a file under their names of today."""
    if estimator not in _CALLED_TOL:
        return parameters
    return {_CALLED_TOL[estimator] if key == "tol" else key: value for key, value in parameters.items()}
