"""Closed forms: dense linear algebra that is both the fast path and the second opinion."""
