"""Passes over rows that need not be in memory."""
