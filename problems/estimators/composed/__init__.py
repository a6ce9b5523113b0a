"""Estimators around a user-defined machine."""
