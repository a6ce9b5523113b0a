r"""How do I forecast a series?
===========================

The numbers of sunspots rise and fall in about eleven years. A machine for them is a regression on past values:
leave-one-out chooses how many, the kernel and gamma. The forecast is then one step ahead, each year from the observed
ones before it, or free, with its forecasts in the place of observations.

With p lags the machine is an LS-SVM on windows of the series:

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_{t=p+1}^T e_t^2
    \quad \text{s.t.} \quad y_t = w^T \varphi(y_{t-1}, \dots, y_{t-p}) + b + e_t, \quad t = p + 1, \dots, T
"""

import matplotlib.pyplot as plt
import numpy as np

from problems import NARXRegressor
from substrate.datasets import sunspots

X, y = sunspots()
years = X[:, 0]
train = years <= 1920

models = [NARXRegressor(lags=lags).fit(None, y[train]) for lags in (1, 2, 3, 4, 6, 9, 12)]
for model in models:
    print(f"{model.lags:2d} lags: left-out error {np.sqrt(model.regressor_.criterion_):.2f}")

model = min(models, key=lambda model: model.regressor_.criterion_)
later = y[~train]
one_step = model.predict_one_step(None, y)[~train]
years_before = np.append(y[train][-1], later[:-1])
errors = [np.sqrt(np.mean((guess - later)[:35] ** 2)) for guess in (one_step, years_before)]
print(f"{model.lags} lags; error 1921 to 1955: {errors[0]:.1f} one step ahead, {errors[1]:.1f} by the year before")

print()
print(model.certificate_)

# %%
# The free run knows nothing after 1920.
_, ax = plt.subplots()
shown = slice(0, 40)
ax.plot(years[~train][shown], later[shown], ".", color="black", label="observed")
ax.plot(years[~train][shown], one_step[shown], label="one step ahead")
ax.plot(years[~train][:22], model.forecast(22), "--", label="free run from 1920")
ax.set(xlabel="year", ylabel="sunspot number", title="By a regression on past values, one step at a time or freely")
ax.legend(loc="upper left")
plt.show()
