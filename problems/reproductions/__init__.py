"""The published tables and figures of the five papers, measured again and judged by stated rules.

A :class:`~problems.reproductions.study.Study` measures seed by seed, makes its claims from the numbers alone, and draws
them; ``substrate reproduce`` runs them. A study is named by the paper and by what is reproduced.
"""

from problems.reproductions import column_classifiers, reduction, robust, sparse_curves, sparseness, structure
from problems.reproductions.study import Outcome, Study

__all__ = ["STUDIES", "Outcome", "Study"]

#: All studies by their names, in the order in which they are run.
STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        sparseness.TABLE_1,
        structure.ADDITIVE,
        structure.BOSTON,
        sparse_curves.MOTORCYCLE,
        sparse_curves.BOSTON,
        reduction.TIMING,
        reduction.RECONSTRUCTION,
        robust.OUTLIERS,
        robust.HEAVY_TAILS,
        robust.MOTORCYCLE,
        robust.BOSTON,
        robust.PRUNING,
        robust.BREAKDOWN,
        column_classifiers.PIMA,
        column_classifiers.TIC_TAC_TOE,
        column_classifiers.IONOSPHERE,
    )
}
