"""Certificates: reports of recomputed residuals, attached to every fit and every declared solve."""

from substrate.certificates.certificate import NO_BOUND, Certificate, warn_unless_holds
from substrate.certificates.rows import Accuracy, Row

__all__ = ["NO_BOUND", "Accuracy", "Certificate", "Row", "warn_unless_holds"]
