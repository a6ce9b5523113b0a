"""Machines that choose a parameter by validation, with a proof."""

from problems.estimators.chosen import stacked as stacked  # by which a search knows its stack
