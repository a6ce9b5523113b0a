"""Passes over rows that need not be in memory: where rows come from, how sums over them are taken, and by whom."""

from substrate.streaming.parameters import Passes

__all__ = ["Passes"]
