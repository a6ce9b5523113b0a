"""Certificates: reports of recomputed residuals, attached to every fit and every declared solve."""

from substrate.certificates.certificate import Certificate
from substrate.certificates.rows import Row

__all__ = ["Certificate", "Row"]
