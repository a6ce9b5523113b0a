r"""Sparse LS-SVM classifiers that keep some columns of the linear system (4) of [Carvalho2006]_.

.. math:: A_S \begin{bmatrix} b \\ \alpha_S \end{bmatrix} \approx \begin{bmatrix} 0 \\ 1 \end{bmatrix},
          \qquad f(x) = \sum_{i \in S} \alpha_i y_i k(x_i, x) + b

========================  ==============================================  ===========================================
estimator                 which patterns S                                solution
========================  ==============================================  ===========================================
LS2SVMClassifier          echelon reduction under a tolerance             least squares, all rows
AdaPinvClassifier         largest absolute alpha, by an Adaline           least squares, all rows
IPLSSVMClassifier         largest signed alpha, by the direct solution    least squares, all rows
ALSSVMClassifier          an Adaline that eliminates patterns             the LS-SVM of S, without the other rows
========================  ==============================================  ===========================================

The row and the column of the bias are always kept. On the paper's data a random S of the same size with the same least
squares tests as well as any of the first three rules (``python examples/reproductions/run.py carvalho2006``): what
matters is that every row enters the fit, not which columns are kept.

:place [Carvalho2006]_ Tables 1-3: the comparison, with controls

The problem itself is :mod:`problems.column_reduced_ls_svm`.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from problems.estimators.pruned.column_fit import ColumnReducedClassifier, MachineGroup, Selection
from substrate.arrays import positive, whole_number
from substrate.errors import DeclarationError
from substrate.least_squares.adaline import solve_by_adaline
from substrate.least_squares.column_reduction import echelon_columns, echelon_threshold, ranked_columns, support_count
from substrate.least_squares.saddle_system import bordered_target, solve_saddle_system

__all__ = ["AdaPinvClassifier", "IPLSSVMClassifier", "LS2SVMClassifier"]


@dataclass(eq=False, repr=False, kw_only=True)
class LS2SVMClassifier(ColumnReducedClassifier):
    """LS2-SVM: columns that the ones before them explain are dropped ([Carvalho2006]_ section 3.3).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.LSSVMRegressor`.
    gamma : float, default=1.0
        Weight of the squared errors against the norm; 1/gamma is on the diagonal of the system.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.
    coding : {"one_vs_rest", "one_vs_one", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines, see :mod:`substrate.codings`.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        As for :class:`~problems.LSSVMClassifier`, from decision values of rows left out in five folds.
    threshold : float, default=0.2
        A column is dropped when, with the kept columns before it eliminated, no entry exceeds
        1/gamma + threshold * max k(x, x). The published threshold is that whole sum; since anything below 1/gamma drops
        hardly any column, only the part above it is a parameter.

    Attributes
    ----------
    threshold_ : float
        The threshold as published, in the units of the system.
    support_, n_support_, support_values_, support_vectors_
        The rows that some machine keeps. They depend on the order of the rows of X.
    classes_, code_book_, support_codes_, bias_, kernel_, certificate_
        As for :class:`~problems.LSSVMClassifier`.
    """

    threshold: float = 0.2
    _title = "LS2-SVM classification"

    def _check_parameters(self, smallest: int) -> None:
        positive(self.threshold, "threshold")

    def _select(self, group: MachineGroup) -> Selection:
        threshold = echelon_threshold(group.gram.diagonal, group.ridge, self.threshold)
        columns = echelon_columns(group.matrix, threshold)
        facts = (("columns", f"echelon reduction, threshold {threshold:.6g}"),)
        return Selection((columns,) * group.labels.shape[1], facts, {"threshold_": threshold})


@dataclass(eq=False, repr=False, kw_only=True)
class AdaPinvClassifier(ColumnReducedClassifier):
    """Ada-Pinv: columns ranked by the absolute support values of an Adaline ([Carvalho2006]_ section 3.4).

    Parameters
    ----------
    kernel, gamma, tol, coding, calibration
        As for :class:`~problems.LS2SVMClassifier`.
    n_support : int or float, default=0.5
        Patterns that each machine keeps: a count (an int), or a fraction of its rows in (0, 1] (a float).
    accelerated : bool, default=True
        Conjugate directions; ``False`` is the plain Adaline of the paper, whose epochs grow with the square of the
        condition number (millions on tic-tac-toe).
    adaline_tol : float, default=1e-3
        Relative residual of the system at which the Adaline stops.
    max_epochs : int, default=2000
        Maximum number of epochs of the Adaline. Where the accelerated one does not reach ``adaline_tol``, the direct
        solution, its limit, ranks the columns, which the certificate's record states; where the plain one does not, its
        unfinished weights do, with a warning. The certificate is about the least squares on the columns, however they
        were ranked.

    Attributes
    ----------
    n_epochs_, residual_
        Epochs of the Adaline and its relative residual at their end, of the machine that took longest.
    support_, n_support_, support_values_, support_vectors_
        The rows that some machine keeps.
    classes_, code_book_, support_codes_, bias_, kernel_, certificate_
        As for :class:`~problems.LSSVMClassifier`.
    """

    n_support: float = 0.5
    accelerated: bool = True
    adaline_tol: float = 1e-3
    max_epochs: int = 2000
    _title = "Ada-Pinv classification"

    def _check_parameters(self, smallest: int) -> None:
        support_count(self.n_support, smallest)
        positive(self.adaline_tol, "adaline_tol")
        whole_number(self.max_epochs, "max_epochs", 1)
        if not isinstance(self.accelerated, (bool, np.bool_)):
            raise DeclarationError(f"accelerated must be True or False, received {self.accelerated!r}")

    def _select(self, group: MachineGroup) -> Selection:
        trained = solve_by_adaline(
            group.matrix,
            bordered_target(group.labels),
            tolerance=positive(self.adaline_tol, "adaline_tol"),
            max_epochs=int(self.max_epochs),
            accelerated=bool(self.accelerated),
        )
        weights, residual = trained.weights[1:], float(trained.residual.max())
        kind = "accelerated" if self.accelerated else "plain"
        training = f"{kind}, {trained.epochs} epochs, relative residual {residual:.2e}, ended by {trained.ended}"
        facts = [("Adaline", training)]
        if not trained.is_converged and self.accelerated:
            weights = solve_saddle_system(group.gram, group.labels, group.ridge).support_values
            facts.append(("fallback", "the Adaline did not reach adaline_tol; columns ranked by the direct solution"))
        elif not trained.is_converged:
            warnings.warn(
                f"the plain Adaline ended at a relative residual of {residual:.2e} after {trained.epochs} epochs, "
                f"above adaline_tol = {self.adaline_tol:g}, and its unfinished weights rank the columns; raise "
                "max_epochs or adaline_tol, or use accelerated=True",
                ConvergenceWarning,
                stacklevel=3,
            )
        count = support_count(self.n_support, group.labels.shape[0])
        columns = tuple(ranked_columns(np.abs(a), count) for a in weights.T)
        facts.append(("columns", f"{count} of {group.labels.shape[0]} by absolute alpha"))
        return Selection(columns, tuple(facts), {"n_epochs_": trained.epochs, "residual_": residual})


@dataclass(eq=False, repr=False, kw_only=True)
class IPLSSVMClassifier(ColumnReducedClassifier):
    """IP-LSSVM: columns ranked by the signed support values of the LS-SVM ([Carvalho2006]_ section 3.5).

    Parameters
    ----------
    kernel, gamma, tol, coding, calibration
        As for :class:`~problems.LS2SVMClassifier`.
    n_support : int or float, default=0.5
        Patterns that each machine keeps: a count (an int), or a fraction of its rows in (0, 1] (a float). Those with
        the largest alpha are kept; a negative alpha is a pattern beyond its margin.

    Attributes
    ----------
    support_, n_support_, support_values_, support_vectors_
        The rows that some machine keeps.
    classes_, code_book_, support_codes_, bias_, kernel_, certificate_
        As for :class:`~problems.LSSVMClassifier`.
    """

    n_support: float = 0.5
    _title = "IP-LSSVM classification"

    def _check_parameters(self, smallest: int) -> None:
        support_count(self.n_support, smallest)

    def _select(self, group: MachineGroup) -> Selection:
        solved = solve_saddle_system(group.gram, group.labels, group.ridge)
        count = support_count(self.n_support, group.labels.shape[0])
        columns = tuple(ranked_columns(alpha, count) for alpha in (group.labels * solved.support_values).T)
        kept = f"{count} of {group.labels.shape[0]} by signed alpha of the direct solution"
        return Selection(columns, (("columns", kept),))
