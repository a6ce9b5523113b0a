"""Machines on all training rows."""
