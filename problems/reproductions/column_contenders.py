"""The classifiers that [Carvalho2006]_ compares, as it names them, with a dense machine and two controls of our own."""

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from problems.estimators.column_fit import MachineGroup, Reduced, Selection
from problems.estimators.column_reduced import AdaPinvClassifier, ALSSVMClassifier, IPLSSVMClassifier, LS2SVMClassifier
from problems.estimators.ls_svm import LSSVMClassifier
from problems.estimators.pruned import PrunedLSSVMClassifier
from substrate.closed_form.bordered_system import bordered_target
from substrate.closed_form.column_selection import support_count
from substrate.closed_form.pattern_elimination import eliminate_patterns
from substrate.conventions import sigma_to
from substrate.kernels import RBF

__all__ = ["SETTINGS", "RandomColumns", "Setting", "UnfinishedALSSVM", "contenders"]

FEW = 0.1


@dataclass(frozen=True, slots=True)
class Setting:
    """Kernel width and gamma that work on a data set, and what gives about the published support."""

    standardise: bool
    sigma: float
    gamma: float
    n_support: float
    tolerance: float
    left: float


SETTINGS = {
    "pima": Setting(True, 8.0, 1.0, 0.75, 0.03, 0.73),
    "tic_tac_toe": Setting(False, 2.0, 100.0, 0.75, 0.13, 0.70),
    "ionosphere": Setting(False, 3.0, 10.0, 0.50, 0.17, 0.43),
}


class RandomColumns(IPLSSVMClassifier):
    """The control: as many columns as the others, drawn by lot, the same least squares."""

    def __init__(self, kernel: Any = "rbf", gamma: float = 1.0, n_support: float = 0.5, seed: int = 0) -> None:
        super().__init__(kernel, gamma, n_support)
        self.seed = seed

    def _select(self, group: MachineGroup) -> Selection:
        n = group.labels.shape[0]
        drawn = np.random.default_rng(self.seed).permutation(n)[: support_count(self.n_support, n)]
        return Selection((np.sort(drawn),), ())


class UnfinishedALSSVM(ALSSVMClassifier):
    """A-LSSVM with the weights as they are when elimination ends, as published; its certificate does not hold."""

    def fit(self, X: Any, y: Any) -> Self:
        """Fit without the warning: that these weights solve nothing is what is shown."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", f"{self._title}: the certificate does not hold", ConvergenceWarning)
            return super().fit(X, y)

    def _solve(self, group: MachineGroup, machine: int, columns: Any) -> Reduced:
        B = bordered_target(group.labels[:, machine])
        ended = eliminate_patterns(
            group.matrix,
            B,
            threshold=self.threshold,
            count=support_count(self.n_support, B.size - 1),
            max_epochs=self.max_epochs,
            seed=int(np.random.RandomState(self.random_state).randint(2**31 - 1)),
        )
        return Reduced(float(ended.weights[0]), ended.weights[1:], (), "weights at the end of elimination")


def contenders(s: Setting, seed: int) -> dict[str, Any]:
    """Every method with the same kernel and gamma (C of the SVM), by the name it has in the published tables."""
    kernel: dict[str, Any] = {"kernel": RBF(s.sigma), "gamma": s.gamma}
    adaline: dict[str, Any] = {"threshold": 0.2, "max_epochs": 3000, "n_support": s.left, "random_state": seed}
    return {
        "SVM": SVC(C=s.gamma, gamma=sigma_to("scikit-learn SVM", s.sigma)),
        "Pruning": PrunedLSSVMClassifier(**kernel),
        "LS2-SVM": LS2SVMClassifier(**kernel, tolerance=s.tolerance),
        "Ada-Pinv": AdaPinvClassifier(**kernel, n_support=s.n_support),
        "IP-LSSVM": IPLSSVMClassifier(**kernel, n_support=s.n_support),
        "A-LSSVM": ALSSVMClassifier(**kernel, **adaline),
        "A-LSSVM, weights at its end": UnfinishedALSSVM(**kernel, **adaline),
        "LS-SVM, all columns": LSSVMClassifier(**kernel),
        "random columns": RandomColumns(**kernel, n_support=s.n_support, seed=seed),
        "Ada-Pinv, 10 %": AdaPinvClassifier(**kernel, n_support=FEW),
        "IP-LSSVM, 10 %": IPLSSVMClassifier(**kernel, n_support=FEW),
        "random columns, 10 %": RandomColumns(**kernel, n_support=FEW, seed=seed),
    }
