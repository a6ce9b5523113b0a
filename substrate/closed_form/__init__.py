"""Closed forms: dense linear algebra, both the fast path and an independent check of the declared problems."""
