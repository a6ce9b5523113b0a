"""The report of ``substrate fit`` on one page: what was fitted, how well it predicts, its certificate, and its use."""

from html import escape
from pathlib import Path
from typing import Any

import numpy as np

import substrate
from problems.command_line.importances import importance
from problems.command_line.report.answers import first_screen, measures
from problems.command_line.report.formulas import (
    choice_formula,
    kernel_formula,
    machine_formula,
    problem_formulas,
    spoken,
)
from problems.command_line.report.page import (
    Picture,
    answers,
    code,
    figure,
    figures,
    page,
    paragraph,
    section,
    table,
)
from problems.command_line.report.pictures import pictures
from problems.estimators.shared.components import RELEVANCE, is_additive
from problems.estimators.shared.importance import LeftOutImportance
from problems.tables.criterion_words import CRITERION_WORDS, LEFT_OUT_WORDS
from problems.tables.fit import Fit, WeightBound, bound_of, stack_errors
from problems.tables.models import MODELS
from problems.tables.quality import Confusion
from substrate.certificates import Certificate
from substrate.kernels import Componentwise

__all__ = ["certificate_section", "describe_facts", "report"]

_WORDS = {
    "stack": "A stack of least-squares support vector machines",
    "lssvm": "A least-squares support vector machine",
    "robust": "A weighted least-squares support vector machine, robust against outliers",
    "sparse": "A least-squares support vector machine on few basis vectors",
    "l1": "A kernel machine with few support vectors, by a penalty on the 1-norm",
    "structure": "A sum of functions of one input each, by a penalty on how much each varies",
    "fused": "A least-squares support vector machine whose weight the held-out rows chose",
}
_SYMBOLS = {
    "stack": "This is the problem of every machine: w and φ are weights and features of its kernel, b is the bias, e "
    "the errors, γ their weight.",
    "lssvm": "w and φ are weights and features of the kernel, b is the bias, e the errors, γ their weight.",
    "robust": "w and φ are weights and features of the kernel, b is the bias, e the errors, γ their weight; v is small "
    "for a row whose error was large in a first fit.",
    "sparse": "w is a combination of few features φ of the kernel, b is the bias, e the errors, γ their weight.",
    "l1": "α are the support values, most of them zero; b is the bias, e the errors, ζ the weight of the 1-norm.",
    "structure": "The component of input l varies by at most t over the training rows; b is the bias, e the errors, ρ "
    "the weight of the variations.",
    "fused": "w and φ are weights and features of the kernel, b is the bias, e the errors, γ their weight.",
}


_PREDICTS = "The machine that predicts, and its kernel:"


def report(fit: Fit, model_path: str | None, importances: LeftOutImportance | None = None) -> str:
    """Return the page as text; ``importances`` are measured here unless given."""
    prepared = fit.preparation
    bound = bound_of(fit)
    importances = importance(fit) if importances is None else importances
    drawn = pictures(fit, importances)
    # the bars of the certificate belong beside its table
    sections = [
        answers(first_screen(fit, importances)),
        _summary(fit),
        _errors(fit, bound),
        section("Pictures", *figures(drawn[:-1])) if len(drawn) > 1 else "",
        _inputs(fit, importances),
        _describe_fit(fit, bound),
        _certificate(fit, drawn[-1]),
        _warnings(fit),
        _use(fit, model_path),
        f"<footer>lssvm-substrate {escape(substrate.__version__)}</footer>",
    ]
    title = f"{prepared.target} from {Path(prepared.source.removeprefix('@')).name}"
    return page(title, filter(None, sections))


def _summary(fit: Fit) -> str:
    return paragraph(f"{_WORDS[fit.choices.model]} was fitted ({fit.preparation.task}).") + describe_facts(fit)


def describe_facts(fit: Fit) -> str:
    """Return what was done to the table, one item each."""
    # what a fit was expected to take is no news once it is there
    facts = [fact for fact in fit.description if not fact.startswith("estimate:")]
    return "<ul>" + "".join(f"<li>{escape(fact[0].upper() + fact[1:])}.</li>" for fact in facts) + "</ul>"


def _describe_fit(fit: Fit, bound: WeightBound | None) -> str:
    model, task, estimator = fit.choices.model, fit.preparation.task, fit.model.estimator
    kernel = estimator.kernel_
    elements = [*problem_formulas(model, task), paragraph(_SYMBOLS[model])]
    n_classes = len(estimator.classes_) if task == "classification" else 0
    if task == "classification":
        several = n_classes > 2
        coded = "one such machine per class, that class being +1" if several else f"+1 is {estimator.classes_[1]}"
        elements.append(paragraph(f"The classes are coded as y = -1 and +1 ({coded})."))
    if model == "stack":
        elements += _describe_stack(fit)
    leads = "The machine with the largest weight, and its kernel:" if model == "stack" else _PREDICTS
    elements += [paragraph(leads), machine_formula(model, task, n_classes)]
    n = estimator.support_values_.shape[0]
    rows = f"all {n} training rows" if n == fit.y.size else f"{n} of the {fit.y.size} training rows"
    elements += [paragraph(f"The sum over i is over {rows}."), kernel_formula(kernel)]
    if isinstance(kernel, Componentwise):
        inner = kernel.components(fit.X.shape[1])[0]
        elements.append(kernel_formula(getattr(inner, "kernel", inner)))
        elements.append(paragraph("The last is the kernel of one component; its width differs from input to input."))
    elif hasattr(kernel, "sigma"):
        unit = " (inputs standardised)" if fit.preparation.standardised else ""
        each = ", ".join(f"{width:.4g}" for width in np.atleast_1d(kernel.sigma))
        elements.append(paragraph(f"σ = {each}{unit}."))
    if not kernel_formula(kernel):
        elements.append(paragraph(f"The kernel is {kernel!r}."))
    weight = MODELS[model].weight
    if bound is not None:
        size = fit.y_val.size if bound.by == "validation" else fit.y.size
        which = LEFT_OUT_WORDS[bound.by]
        words = f"{spoken(weight)} was chosen by the error of {which}, n = {size}:"
        elements += [paragraph(words), choice_formula(weight, bound.by)]
    elif model == "stack":
        elements.append(paragraph("Kernels and gammas were chosen by leave-one-out error and by the evidence."))
    elif fit.choices.weights.of(model) is not None:
        elements.append(paragraph(f"{spoken(weight)} = {fit.choices.weights.of(model):g} was given."))
    else:
        elements.append(
            paragraph(f"{spoken(weight)} = {estimator.gamma:.4g}, chosen by the mean absolute leave-one-out error.")
        )
    return section("What was fitted", *elements)


def _describe_stack(fit: Fit) -> list[str]:
    """Return the machines of a stack, and what is known of their weights."""
    stack = fit.model.estimator
    u, gammas = (
        np.reshape(values, (len(stack.kernels_), -1))[:, 0] for values in (stack.stack_weights_, stack.gammas_)
    )
    order = [int(m) for m in np.argsort(-u, kind="stable") if u[m] > 0.0]
    seen = stack_errors(stack)
    machines = "one machine" if len(order) == 1 else f"{len(order)} machines"
    words = (
        f"The prediction is the weighted mean of {machines}; {u.size - len(order)} more were tried and have no weight. "
        f"The weights have a root mean square leave-one-out error of {seen.error:.5g}; it is proved that none have "
        f"less than {seen.lower_bound:.5g}."
    )
    rows = [[f"{u[m]:.3g}", f"{gammas[m]:.4g}", repr(stack.kernels_[m])] for m in order]
    return [paragraph(words), table(("weight", "gamma", "kernel"), ("number", "number", ""), rows)]


def _errors(fit: Fit, bound: WeightBound | None) -> str:
    classification = fit.preparation.task == "classification"
    head = ("measure", "training rows", fit.quality.rows, f"baseline\n{fit.quality.baseline}")
    rows = [[name, *map(_n, values)] for name, *values in measures(fit)]
    elements = [table(head, ("", "number", "number", "number"), rows)]
    if bound is not None:
        rule = CRITERION_WORDS[bound.by]
        unit = " of the outputs against -1 and +1" if classification else ""
        words = (
            f"{spoken(bound.weight)} = {bound.value:.5g} has a mean squared {rule} error{unit} of {bound.error:.7g}."
        )
        if np.isfinite(bound.lower_bound):
            words += (
                f" It is proved that no other {spoken(bound.weight)} of the range searched, with any kernel tried, has "
                f"less than {bound.lower_bound:.7g}."
            )
        elements.append(paragraph(words))
        if bound.by == "validation":
            words = "The held-out rows chose this weight, so their error is slightly smaller than that of new rows."
            elements.append(paragraph(words))
    if fit.quality.caveat:
        elements.append(paragraph(f"{fit.quality.caveat[0].upper()}{fit.quality.caveat[1:]}."))
    if fit.quality.confusion is not None:
        elements.append(_confusion(fit.quality.confusion, fit.quality.rows))
    return section("Errors", *elements)


def _confusion(confusion: Confusion, rows: str) -> str:
    """Return rows by class and predicted class."""
    head = ["class", *(f"as {label}" for label in confusion.classes)]
    lines = [[label, *map(str, row)] for label, row in zip(confusion.classes, confusion.counts.tolist(), strict=True)]
    words = f"{rows[0].upper()}{rows[1:]} by their class (down) and the predicted one (across):"
    return paragraph(words) + table(head, ["", *("number" for _ in confusion.classes)], lines)


def _n(value: float | None) -> str:
    return "none" if value is None or np.isnan(value) else f"{value:.4g}"


def _inputs(fit: Fit, importances: LeftOutImportance | None) -> str:
    model = fit.model.estimator
    additive = is_additive(model)
    head, kinds = ["input", "centre", "scale"], ["", "number", "number"]
    if additive:
        head, kinds = [*head, "variation", "selected"], [*kinds, "number", ""]
    if importances is not None:
        head, kinds = [*head, "importance"], [*kinds, "number"]
    variation = np.atleast_2d(model.maximal_variation_).max(axis=0) if additive else np.zeros(0)
    mask = model.get_support() if additive else np.zeros(0)
    rows, column = [], 0
    for number, input_ in enumerate(fit.preparation.inputs):
        for feature in input_.features:
            row = [feature, f"{input_.center:.6g}", f"{input_.scale:.6g}"]
            row += [f"{variation[column]:.4g}", "yes" if mask[column] else "no"] if additive else []
            if importances is not None:
                mean, deviation = importances.importances_mean[number], importances.importances_std[number]
                row.append(f"{mean:.3g} ± {deviation:.1g}" if feature == input_.features[0] else "")
            rows.append(row)
            column += 1
    words = (
        "Each input x enters as (x - centre) / scale." if fit.preparation.standardised else "Inputs enter as they are."
    )
    if any(input_.categories is not None for input_ in fit.preparation.inputs):
        words += " A category enters as 1 where it is the row's and 0 elsewhere."
    elements = [paragraph(words)]
    if importances is not None:
        how = "grows" if "error" in importances.score else "falls"
        shuffled = f"the {importances.score} of left-out rows {how} when the values of an input are shuffled"
        elements.append(paragraph(f"Importance is by how much {shuffled}."))
    if additive:
        chosen = ", ".join(name for name, keep in zip(fit.preparation.features, mask, strict=True) if keep) or "none"
        share = f"{getattr(model, 'relevance', RELEVANCE):g}"
        elements.append(paragraph(f"Selected, varying by more than {share} of the largest: {chosen}."))
    return section("Inputs", *elements, table(head, kinds, rows))


def _certificate(fit: Fit, bars: Picture) -> str:
    words = (
        "The first line bounds how far the fitted values can be from those of the exact optimum, in units of the "
        "target. Each further line is an equation that the exact optimum satisfies: its residual for the numbers of "
        "this model, recomputed from the data, has to be as small as rounding makes it. The gap of a chosen weight has "
        "to be as small as requested."
    )
    return certificate_section(fit.model.estimator.certificate_, words, bars)


def certificate_section(certificate: Certificate, words: str, bars: Picture | None) -> str:
    """Return the rows of a certificate as a table below its promise, ``words`` that explain them, and its record."""
    head = ("check", "residual", "scale", "residual / scale", "allowed", "pass")
    kinds = ("", "number wide", "number wide", "number", "number", "")
    rows = [
        [
            f"{row.name}\n{row.formula}",
            f"{row.value:.2e}",
            f"{row.scale:.2e}",
            f"{row.relative:.1e}",
            f"{row.tolerance:.1e}",
            "yes" if row.passes else "NO",
        ]
        for row in certificate.rows
    ]
    facts = "".join(f"<li>{escape(name)}: {escape(fact)}</li>" for name, fact in certificate.record)
    conclusion = f"{certificate.title}: {'holds' if certificate.holds else 'does not hold'}; {certificate.promise}."
    drawn = "" if bars is None else figure(bars)
    elements = [paragraph(conclusion), paragraph(words), table(head, kinds, rows), drawn, f"<ul>{facts}</ul>"]
    return section("Certificate", *filter(None, elements))


def _warnings(fit: Fit) -> str:
    if not fit.warnings:
        return section("Warnings", paragraph("None were raised."))
    listed = "<ul>" + "".join(f"<li>{escape(warning)}</li>" for warning in fit.warnings) + "</ul>"
    return section("Warnings", listed, paragraph("Columns are counted from 0, in the order of the table of inputs."))


def _use(fit: Fit, model_path: str | None) -> str:
    if model_path is None:
        return section("Use it", paragraph("The model was not kept: fit again with --out model.npz to predict by it."))
    name: Any = Path(model_path).name
    python = (
        "from problems.tables.tabular_model import TabularModel\n\n"
        f"model = TabularModel.load({name!r})\n"
        'print(model.predict("new.csv"))  # columns by name, coded and scaled as in training\n'
        "print(model.estimator.certificate_)"
    )
    plain = (
        f"problems.load({name!r}) gives the {type(fit.model.estimator).__name__} alone, which expects inputs coded and "
        "scaled as in the table of inputs."
    )
    shell = f"substrate predict {name} new.csv --out predictions.csv"
    return section(
        "Use it", paragraph("At the prompt:"), code(shell), paragraph("In Python:"), code(python), paragraph(plain)
    )
