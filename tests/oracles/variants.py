"""Machines of LSSVMRegressor and LSSVMClassifier that tests name often: robust, additive and symmetric ones."""

from problems import LSSVMClassifier, LSSVMRegressor, Robust
from substrate.kernels import RBF, Componentwise, Symmetric, as_kernel


def robust_machine(kernel=None, gamma=1.0, weighting="hampel", scale="iqr", max_reweightings=1, **parameters):
    kernel = RBF("median") if kernel is None else kernel
    return LSSVMRegressor(kernel, gamma, robust=Robust(weighting, scale, max_reweightings), **parameters)


def componentwise_machine(kernel=None, gamma=1.0, estimator=LSSVMRegressor, **parameters):
    kernel = RBF("median") if kernel is None else kernel
    return estimator(
        kernel if isinstance(kernel, Componentwise) else Componentwise(as_kernel(kernel)), gamma, **parameters
    )


def componentwise_classifier(kernel=None, gamma=1.0, **parameters):
    return componentwise_machine(kernel, gamma, LSSVMClassifier, **parameters)


def symmetric_machine(kernel=None, gamma=1.0, symmetry="even", **parameters):
    return LSSVMRegressor(
        Symmetric(RBF("median") if kernel is None else as_kernel(kernel), symmetry), gamma, **parameters
    )
