"""How sure a fitted machine is: prediction intervals and regions, from the inverse that leave-one-out already uses.

What estimators use of it can be had from here; a module is imported when it is first asked for, since a fit needs few.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from substrate.uncertainty.bands import Smoother, curve_length, tube_quantile
    from substrate.uncertainty.calibration import beside_decision, fit_isotonic, fit_sigmoid, margins
    from substrate.uncertainty.conformal import conformal_ends, split_ends
    from substrate.uncertainty.gaussian import gaussian_deviations, gaussian_ends, noise_of_targets
    from substrate.uncertainty.influence import (
        Influence,
        KernelInfluence,
        LeftOutMachines,
        kernel_influence,
    )
    from substrate.uncertainty.jackknife import cv_plus, jackknife_plus, plus_ends
    from substrate.uncertainty.label_sets import in_set, less_strange, less_strange_enlarged, strangeness
    from substrate.uncertainty.left_out_stack import LeftOutStack
    from substrate.uncertainty.levels import exact_level
    from substrate.uncertainty.own_rows import ChangedRows, MachinesWithoutRows, OwnRows, StackedOwnRows
    from substrate.uncertainty.spread import Spread

#: The names, each with its module.
_MODULES = {
    "ChangedRows": "own_rows",
    "Influence": "influence",
    "KernelInfluence": "influence",
    "LeftOutMachines": "influence",
    "LeftOutStack": "left_out_stack",
    "MachinesWithoutRows": "own_rows",
    "OwnRows": "own_rows",
    "Smoother": "bands",
    "Spread": "spread",
    "StackedOwnRows": "own_rows",
    "beside_decision": "calibration",
    "conformal_ends": "conformal",
    "curve_length": "bands",
    "cv_plus": "jackknife",
    "exact_level": "levels",
    "fit_isotonic": "calibration",
    "fit_sigmoid": "calibration",
    "gaussian_deviations": "gaussian",
    "gaussian_ends": "gaussian",
    "in_set": "label_sets",
    "jackknife_plus": "jackknife",
    "kernel_influence": "influence",
    "less_strange": "label_sets",
    "less_strange_enlarged": "label_sets",
    "margins": "calibration",
    "noise_of_targets": "gaussian",
    "plus_ends": "jackknife",
    "split_ends": "conformal",
    "strangeness": "label_sets",
    "tube_quantile": "bands",
}

__all__ = [
    "ChangedRows",
    "Influence",
    "KernelInfluence",
    "LeftOutMachines",
    "LeftOutStack",
    "MachinesWithoutRows",
    "OwnRows",
    "Smoother",
    "Spread",
    "StackedOwnRows",
    "beside_decision",
    "conformal_ends",
    "curve_length",
    "cv_plus",
    "exact_level",
    "fit_isotonic",
    "fit_sigmoid",
    "gaussian_deviations",
    "gaussian_ends",
    "in_set",
    "jackknife_plus",
    "kernel_influence",
    "less_strange",
    "less_strange_enlarged",
    "margins",
    "noise_of_targets",
    "plus_ends",
    "split_ends",
    "strangeness",
    "tube_quantile",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = globals()[name] = getattr(import_module(f"substrate.uncertainty.{_MODULES[name]}"), name)
        return value
    raise AttributeError(f"module 'substrate.uncertainty' has no attribute {name!r}")
