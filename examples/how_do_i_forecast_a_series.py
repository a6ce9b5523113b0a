"""How do I forecast a series?
===========================

A regression on its own past: lags and kernel by what is left out, one step ahead or freely, with intervals whose
coverage holds for any series.
"""

import matplotlib.pyplot as plt
import numpy as np

from problems import NARXRegressor
from substrate.datasets import sunspots

X, y = sunspots()
years = X[:, 0]
train = years <= 1920

model = NARXRegressor(candidates=[1, 2, 3, 4, 6, 9, 12]).fit(None, y[train])
for result in model.lag_results_:
    print(f"{len(result['lags']):2d} lags: left-out error {np.sqrt(result['criterion']):.2f}")

later = y[~train]
intervals = model.follow(None, later, coverage=0.9)
one_step = model.predict_one_step(None, np.append(model.history_, later))[model.history_.size :]
years_before = np.append(y[train][-1], later[:-1])
errors = [np.sqrt(np.mean((guess - later)[:35] ** 2)) for guess in (one_step, years_before)]
print(
    f"{len(model.lags_)} lags; error 1921 to 1955: {errors[0]:.1f} one step ahead, {errors[1]:.1f} by the year before"
)
print(intervals)

print()
print(model.certificate_)

# %%
# The free run knows nothing after 1920.
_, ax = plt.subplots()
shown = slice(0, 40)
lower, upper = np.clip(intervals.ends, 0.0, 250.0).T
ax.fill_between(years[~train][shown], lower[shown], upper[shown], color="0.9", label="90 % of the years")
ax.plot(years[~train][shown], later[shown], ".", color="black", label="observed")
ax.plot(years[~train][shown], one_step[shown], label="one step ahead")
ax.plot(years[~train][:22], model.forecast(22), "--", label="free run from 1920")
ax.set(xlabel="year", ylabel="sunspot number", title="By a regression on its own past, one step at a time or freely")
ax.legend(loc="upper left")
plt.show()
