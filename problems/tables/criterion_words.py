"""What chose a weight, in words: the criterion by its name, and the rows that it is of."""

__all__ = ["CRITERION_WORDS", "LEFT_OUT_WORDS"]

CRITERION_WORDS = {
    "loo": "leave-one-out",
    "groups": "leave-group-out",
    "blocks": "leave-block-out",
    "folds": "cross-validation",
    "validation": "held-out",
}
LEFT_OUT_WORDS = {
    "loo": "every training row left out in turn",
    "groups": "every group of training rows left out in turn",
    "blocks": "every training row left out with its neighbours in time",
    "folds": "folds of training rows that belong together, or of later ones",
    "validation": "the held-out rows",
}
