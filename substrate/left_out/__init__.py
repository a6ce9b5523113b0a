"""Rows left out in closed form, and the criteria over gamma that follow from a spectrum."""
