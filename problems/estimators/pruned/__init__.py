"""Machines with fewer support vectors than rows: pruned, and with fewer columns."""
