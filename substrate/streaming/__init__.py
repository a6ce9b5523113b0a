"""Passes over rows that need not be in memory: sources of rows, sums over them, and executors."""

from substrate.streaming.parameters import Passes

__all__ = ["Passes"]
