"""Machines with a norm as penalty: sparse by the 1-norm, or additive by maximal variation."""
