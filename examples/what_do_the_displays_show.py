"""What do the displays show?
==========================

Seven displays are drawn into a temporary folder (needs the extra [plot]). Each display keeps the numbers it draws as
attributes, so that a picture can be checked, or drawn again elsewhere.
"""

import tempfile
from pathlib import Path

from problems import (
    FusedMaximalVariationRegressor,
    L1SubstrateRegressor,
    LSSVMRegressorCV,
    PrunedLSSVMRegressor,
    RobustLSSVMRegressor,
)
from problems.displays import (
    CertificateDisplay,
    ComponentFunctionsDisplay,
    CriterionDisplay,
    EvolutionDiagramDisplay,
    PruningPathDisplay,
    ResidualsDisplay,
    SupportVectorsDisplay,
)
from substrate.datasets import additive_function, motorcycle, sinc_outliers
from substrate.kernels import RBF

X, y = additive_function(40, 6, random_state=0)
fused = FusedMaximalVariationRegressor(RBF(1.0), relevance=0.1).fit(X, y, *additive_function(40, 6, random_state=1))
T, g = motorcycle()
named = {"names": ["time (ms)"], "target": "acceleration (g)"}
S, z = sinc_outliers(random_state=0)
kernel = RBF(sigma=6.6)

try:
    import matplotlib
except ImportError:
    print("no pictures without matplotlib: pip install matplotlib\n")
else:
    matplotlib.use("Agg")
    sparse = L1SubstrateRegressor(kernel, zeta=30.0).fit(T, g)
    drawn = {
        "evolution": EvolutionDiagramDisplay.from_estimator(fused),
        "components": ComponentFunctionsDisplay.from_estimator(fused, X, y),
        "support": SupportVectorsDisplay.from_estimator(sparse, T, g, **named),
        "criterion": CriterionDisplay.from_estimator(LSSVMRegressorCV(kernel).fit(T, g)),
        "pruning": PruningPathDisplay.from_estimator(PrunedLSSVMRegressor(kernel, gamma=2.0).fit(T, g)),
        "residuals": ResidualsDisplay.from_estimator(RobustLSSVMRegressor(RBF(1.0), gamma=10.0).fit(S, z), S, z),
        "certificate": CertificateDisplay.from_estimator(fused),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, display in drawn.items():
            target = Path(folder) / f"{name}.png"
            display.figure_.savefig(target, dpi=100)
            print(f"{target.name}: {target.stat().st_size // 1024} kB, {len(display.figure_.axes)} axes")
    print("components drawn:", ", ".join(part.name for part in drawn["components"].components), "\n")

print(fused.certificate_)
