"""Estimators around a machine of one's own."""
