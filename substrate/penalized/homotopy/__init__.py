"""Solution paths: the optimum as a piecewise linear function of one weight, knot by knot, with certificates."""
