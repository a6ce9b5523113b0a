r"""What do the displays show?
==========================

A display draws the numbers behind a model, in scikit-learn's convention: ``Display.from_estimator`` draws, and keeps
what it drew as attributes, so that a picture can be checked, or drawn again on other axes. Displays are combined by
``ax``. Six of them are on this page, the last for a machine whose weight was chosen by validation rows.

The evolution diagram shows the maximal variations of the components over that weight :math:`\rho`, and below them the
validation error with its lower bound:

.. math::

    t_l(\rho) = \max_i |f^l_\rho(x_i)|, \quad l = 1, \dots, d, \qquad
    \frac1n \sum_{j=1}^n \big(y^v_j - f_\rho(x^v_j)\big)^2
"""

import matplotlib.pyplot as plt

from problems import (
    FusedMaximalVariationRegressor,
    L1SubstrateRegressor,
    LSSVMRegressor,
    LSSVMRegressorCV,
)
from problems.displays import (
    ComponentFunctionsDisplay,
    CriterionDisplay,
    EvolutionDiagramDisplay,
    IntervalDisplay,
    ResidualsDisplay,
    SupportVectorsDisplay,
)
from substrate.datasets import additive_function, motorcycle, sinc_outliers
from substrate.kernels import RBF

T, g = motorcycle()
named = {"names": ["time (ms)"], "target": "acceleration (g)"}
kernel = RBF(sigma=6.6)
model = LSSVMRegressor(kernel, gamma=2.0).fit(T[::2], g[::2])
print(model.certificate_)

# %%
# Three displays of one fit each, on axes that are given.
figure, axes = plt.subplots(1, 3, figsize=(15.0, 4.2), layout="constrained")
sparse = L1SubstrateRegressor(kernel, zeta=30.0).fit(T, g)
support = SupportVectorsDisplay.from_estimator(sparse, T, g, **named, ax=axes[0])
support.ax_.set_title("SupportVectorsDisplay")
IntervalDisplay.from_estimator(model, T[1::2], g[1::2], **named, ax=axes[1]).ax_.set_title("IntervalDisplay")
CriterionDisplay.from_estimator(LSSVMRegressorCV(kernel).fit(T, g), ax=axes[2]).ax_.set_title("CriterionDisplay")
plt.show()

# %%
# Errors of a robust machine and their weights.
S, z = sinc_outliers(random_state=0)
errors = ResidualsDisplay.from_estimator(LSSVMRegressor(RBF(1.0), gamma=10.0, robust="hampel").fit(S, z), S, z)
errors.axes_[0].set_title("ResidualsDisplay: outliers have no weight")
plt.show()

# %%
# Structure detection: each component, and the variations over the weight with the validation error and its bound.
X, y = additive_function(40, 6, random_state=0)
fused = FusedMaximalVariationRegressor(RBF(1.0), relevance=0.1).fit(X, y, *additive_function(40, 6, random_state=1))
components = ComponentFunctionsDisplay.from_estimator(fused, X, y)
components.figure_.suptitle("ComponentFunctionsDisplay: " + ", ".join(part.name for part in components.components))
EvolutionDiagramDisplay.from_estimator(fused).axes_[0].set_title("EvolutionDiagramDisplay: the inputs that stay")
plt.show()
