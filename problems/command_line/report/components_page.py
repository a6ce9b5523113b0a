"""The page of a map: rows in the plane of two components, what is proved of them, and the clusters if there are any."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

import substrate
from problems.command_line.report.page import answers, figures, page, paragraph, section, table
from problems.command_line.report.pictures import PicturePlan, draw_plans
from problems.command_line.report.report import certificate_section
from problems.displays import CertificateDisplay, ComponentMapDisplay
from substrate.certificates import Certificate

__all__ = ["DrawnComponents", "components_page"]

_WORDS = (
    "The first line bounds how far each computed eigenvalue can be from an exact one of the centred kernel matrix, all "
    "rounding included. The promise above it says whether these are proved to be the largest ones, and within which "
    "angle the plane of the picture is that of the exact components."
)


@dataclass(frozen=True, slots=True)
class DrawnComponents:
    """What the page shows: a name, the fitted components and rows, groups with their name, clusters, and remarks."""

    title: str
    model: Any
    X: Any
    groups: Any
    name: str
    labels: Any
    certificate: Certificate
    inputs: Sequence[str]
    remarks: Sequence[str]


def components_page(drawn: DrawnComponents) -> str:
    """Return the page as text."""
    model, certificate = drawn.model, drawn.certificate
    shares = np.asarray(model.explained_variance_ratio_)

    def draw_map() -> ComponentMapDisplay:
        return ComponentMapDisplay.from_estimator(model, drawn.X, groups=drawn.groups, name=drawn.name)

    pictures = draw_plans(
        [
            PicturePlan("The map", "Rows that are near each other here are alike to the kernel.", draw_map),
            PicturePlan(
                "The certificate",
                "One bar per check: left of zero it passes, and the length shows by how many powers of ten.",
                lambda: CertificateDisplay.from_certificate(certificate),
            ),
        ]
    )
    first = [
        (
            "Are these the components?",
            "Proved" if certificate.holds else "Not proved",
            f"{certificate.promise}.",
            "holds" if certificate.holds else "fails",
        ),
        (
            "How much of the variance is on the map?",
            f"{100.0 * float(shares.sum()):.0f} %",
            f"of the features of {drawn.X.shape[0]} rows; " + ", ".join(f"{100.0 * share:.1f} %" for share in shares),
            "",
        ),
    ]
    sections = [
        answers(first),
        section("Picture", *figures(pictures[:1])),
        _values(model),
        "" if drawn.labels is None else _clusters(drawn.labels),
        section("Inputs", paragraph(", ".join(drawn.inputs))),
        certificate_section(certificate, _WORDS, pictures[-1] if len(pictures) > 1 else None),
        section("Remarks", *map(paragraph, drawn.remarks)) if drawn.remarks else "",
        f"<footer>lssvm-substrate {escape(substrate.__version__)}</footer>",
    ]
    return page(drawn.title, filter(None, sections))


def _values(model: Any) -> str:
    head, kinds = ("component", "eigenvalue", "share of the variance"), ("", "number", "number")
    pairs = zip(model.eigenvalues_, model.explained_variance_ratio_, strict=True)
    rows = [[str(k + 1), f"{value:.6g}", f"{100.0 * share:.2f} %"] for k, (value, share) in enumerate(pairs)]
    return section("Components", table(head, kinds, rows))


def _clusters(labels: Any) -> str:
    sizes = np.bincount(np.asarray(labels))
    rows = [[str(k + 1), str(size), f"{100.0 * size / sizes.sum():.1f} %"] for k, size in enumerate(sizes)]
    return section("Clusters", table(("cluster", "rows", "share"), ("", "number", "number"), rows))
