"""Prediction intervals, bands and probabilities from rows that were left out."""
