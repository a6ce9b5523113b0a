"""Machines whose optimum has kinks: an L1 norm, maximal variation, Huber losses; and their exact solution paths."""
