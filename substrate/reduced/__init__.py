"""Machines on a reduced basis: a few points span the model, all rows train it, block by block."""

from substrate.reduced.basis import Basis

__all__ = ["Basis"]
