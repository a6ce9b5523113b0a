"""Datasets: the tables and the artificial functions on which the papers report their numbers.

Every function returns the pair ``(X, y)`` as fresh arrays, with names, description, citation and provenance as
attributes: ``X, y = motorcycle()``, ``boston().feature_names``. Importing this package costs numpy and the standard
library.

===================  ==============  ====================================  ================
function             rows x inputs   target                                origin
===================  ==============  ====================================  ================
motorcycle           133 x 1         head acceleration (g)                 embedded table
sunspots             309 x 1         yearly sunspot number, a series       embedded table
boston               506 x 13        median home value ($1000s)            embedded table
ripley               250 / 1000 x 2  0, 1                                  embedded tables
pima                 768 x 8         0, 1                                  embedded table
ionosphere           351 x 34        "b", "g"                              embedded table
tic_tac_toe          958 x 9         "negative", "positive"                all games played
sinc                 100 x 1         sinc plus Gaussian noise              drawn
sinc_outliers        300 x 1         sinc, Gaussian noise, three outliers  drawn
sinc_student         300 x 1         sinc plus Student t noise             drawn
additive_function    100 x 25        four additive inputs of twenty-five   drawn
===================  ==============  ====================================  ================
"""

from substrate.datasets.additive import additive_function, tic_tac_toe
from substrate.datasets.noisy_sinc import sinc, sinc_outliers, sinc_student
from substrate.datasets.tables import boston, ionosphere, motorcycle, pima, ripley, sunspots

__all__ = [
    "additive_function",
    "boston",
    "ionosphere",
    "motorcycle",
    "pima",
    "ripley",
    "sinc",
    "sinc_outliers",
    "sinc_student",
    "sunspots",
    "tic_tac_toe",
]
