"""Exact solution paths: piecewise affine solutions followed from knot to knot, with residuals that check them."""
