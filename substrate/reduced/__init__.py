"""Machines on a reduced basis: a few points span the model, all rows train it, block by block."""
