"""Machines on a reduced basis, fitted block by block."""
