"""``substrate explore``: one interactive page that shows a model at every weight, for a table or for a model file.

A model file of an LS-SVM brings its rows and, by :math:`y_i = f(x_i) + e_i` with :math:`e_i = \\alpha_i / \\gamma`, its
targets. Other files do not, and need the table that they were fitted to.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from problems.command_line.choices import choices_of, read_options
from problems.command_line.importances import importance, important
from problems.command_line.report.map_page import map_page
from problems.command_line.report.moving import moving
from problems.command_line.report.moving_page import moving_section, script_policy
from problems.command_line.report.page import figures, page, paragraph
from problems.command_line.report.pictures import pictures
from problems.command_line.report.subject import HeldOutSplit, Subject, leading_words
from problems.estimators.chosen.stacked import StackedModel
from problems.estimators.full.ls_svm import LSSVMModel
from problems.estimators.shared.model import has_part
from problems.tables.dependent_rows import time_order
from problems.tables.embedded_sets import question_of
from problems.tables.fit import fit_table
from problems.tables.number_format import PLAIN, number
from problems.tables.preparation import Preparation
from problems.tables.table import Table, named_columns
from problems.tables.tabular_model import TabularModel
from substrate.arrays import is_sparse
from substrate.errors import DataError
from substrate.namespaces import to_numpy

__all__ = ["make_page", "moving_document", "subject_of_file"]


def make_page(options: argparse.Namespace) -> str:
    """Return the page of the arguments of the command."""
    if options.data.endswith(".npz"):
        model = TabularModel.load(options.data, options.max_bytes)
        if "parameters" in getattr(model.estimator, "path_", ()):
            return map_page(f"{Path(options.data).name}: two weights", model.estimator)
        table = None if options.table is None else read_options(options.table, options, decided=True)
        subject = subject_of_file(model, table, options.target)
        words = [leading_words(model.estimator)] if has_part(model.estimator, StackedModel) else []
        return moving_document(f"{subject.target} by {Path(options.data).name}", subject, *words)
    if options.table is not None:
        raise DataError(f"--table goes with a model file, MODEL.npz; received the table {options.data}")
    table = read_options(options.data, options).drop_columns(options.drop)
    target, task = options.target, "auto"
    if target is None and not options.data.startswith("@"):
        raise DataError(f"--target is missing; {options.data} has the columns {named_columns(table.names)}")
    if target is None:  # an embedded data set has a target of its own
        target, task = question_of(options.data[1:])
    fit = fit_table(table, replace(choices_of(options, target, task), refit=False, shown=False))
    still, importances = "".join(figures(pictures(fit, still=True))), importance(fit)
    title = f"{target} from {Path(options.data.removeprefix('@')).name}"
    words = [leading_words(fit.model.estimator)] if fit.choices.model == "stack" else []
    first = [] if importances is None else important(importances)
    return moving_document(title, Subject.of(fit).with_one_machine(), *words, still=still, first=first)


def moving_document(title: str, subject: Subject, *words: str, still: str = "", first: Sequence[int] = ()) -> str:
    """Return a page of the machine that moves, with these paragraphs above it; ``still`` is shown where no script
    runs.
    """
    sections = [*(paragraph(text) for text in words), moving_section(moving(subject, first=first), subject, still)]
    return page(title, sections, script_policy(), "broad")


def subject_of_file(model: TabularModel, table: Table | None, target: str | None) -> Subject:
    """Return the rows of a model file: its own where it is an LS-SVM and no table is given, those of the table
    otherwise.
    """
    estimator, prepared = model.estimator, model.preparation
    if prepared is not None:
        each = [input_ for input_ in prepared.inputs for _ in input_.features]
        names, target = prepared.features, prepared.target
        center, scale = np.array([input_.center for input_ in each]), np.array([input_.scale for input_ in each])
        coded = np.array([input_.categories is not None for input_ in each])
    else:
        count = int(estimator.n_features_in_)
        names = tuple(map(str, getattr(estimator, "feature_names_in_", [f"x{k + 1}" for k in range(count)])))
        center, scale, coded = np.zeros(count), np.ones(count), np.zeros(count, dtype=bool)
    rows = _own_rows(estimator) if table is None else _rows_of(model, table, target)
    subject = Subject(
        estimator=estimator,
        X=rows.X,
        y=rows.y,
        X_val=rows.X_val,
        y_val=rows.y_val,
        features=names,
        target=target or "y",
        center=center,
        scale=scale,
        coded=coded,
    )
    return subject.with_one_machine()


def _own_rows(estimator: Any) -> HeldOutSplit:
    """Return the rows that an LS-SVM or a stack keeps, and the targets that its equations give."""
    points, is_stack = getattr(estimator, "support_vectors_", None), has_part(estimator, StackedModel)
    if not (is_stack or has_part(estimator, LSSVMModel)) or points is None or is_sparse(points):
        raise DataError(
            f"the file of a {type(estimator).__name__} does not hold the targets it was fitted to; give its table, "
            "--table FILE"
        )
    X = np.asarray(estimator._given_units(to_numpy(points)))
    if estimator._labels:
        codes = np.sign(estimator._model.targets()) if is_stack else np.asarray(estimator.support_codes_)
        book = np.asarray(estimator.code_book_)
        codes = codes.reshape(len(codes), -1)
        class_numbers = [
            int(np.flatnonzero(((codes[i] == book) | (codes[i] == 0.0)).all(axis=1))[0]) for i in range(len(codes))
        ]
        y: Any = np.asarray(estimator.classes_)[class_numbers]
    elif is_stack:
        targets = estimator._model.targets()
        y = targets if estimator._model.outputs() else targets[:, 0]
    else:
        alpha, ridge = np.asarray(to_numpy(estimator.support_values_)), np.asarray(to_numpy(estimator.ridge_))
        y = np.asarray(estimator.predict(X)) + alpha * (ridge[:, None] if alpha.ndim > ridge.ndim else ridge)
    return HeldOutSplit(X=X, y=y, X_val=X[:0], y_val=y[:0])


def _rows_of(model: TabularModel, table: Table, target: str | None) -> HeldOutSplit:
    """Return training and held-out rows of the table that a model was fitted to."""
    estimator, prepared = model.estimator, model.preparation
    if target is None:
        raise DataError(f"--target is missing: which column of {table.source} the model was fitted to")
    table, held_out_rows = _rows_of_fit(prepared, table, target)
    form = PLAIN if prepared is None or target in table.typed else prepared.target_written or PLAIN
    y = _targets(estimator, [form.plain(cell) or cell for cell in table.column(target)], target)
    inputs = table if prepared is not None or hasattr(estimator, "feature_names_in_") else table.drop_columns([target])
    X, every = model.matrix(inputs), np.arange(table.n_rows)
    support = np.asarray(estimator.support_)
    held_out = np.array(held_out_rows, dtype=int)
    train = np.setdiff1d(every, held_out)
    if prepared is not None and prepared.split.date:  # such rows were fitted in the order of time
        times = time_order(table, [prepared.split.date])
        train = train[np.argsort(times[train], kind="stable")]
    if prepared is None and getattr(estimator, "cv", 0) is None:  # it held rows out by itself
        train = np.asarray(getattr(estimator, "training_rows_", support))
        held_out, support = np.setdiff1d(every, train), np.searchsorted(train, support)
    vectors = np.asarray(estimator._given_units(to_numpy(estimator.support_vectors_)))
    if support.size and (int(support.max()) >= train.size or not np.allclose(X[train][support], vectors)):
        if not getattr(prepared, "refitted", False) or not np.allclose(X[support], vectors):
            raise DataError(f"{table.source} does not hold the rows that this {type(estimator).__name__} was fitted to")
        train, held_out = every, held_out[:0]  # the model was fitted again, to all rows
    return HeldOutSplit(X=X[train], y=y[train], X_val=X[held_out], y_val=y[held_out])


def _rows_of_fit(prepared: Preparation | None, table: Table, target: str) -> tuple[Table, list[int]]:
    """Return the rows of a table that were fitted or held out, and the places of the latter among them.

    Rows without a target, and those with missing cells where such rows are left out, are not among them.
    """
    if prepared is None:
        return table, []
    gone = set(table.missing(target))
    if prepared.impute == "drop":
        gone |= {row for input_ in prepared.inputs for row in table.missing(input_.name)}
    kept = [row for row in range(table.n_rows) if row not in gone]
    places = {row: place for place, row in enumerate(kept)}
    held_out = [places[row] for row in prepared.split.validation_rows if row in places]
    return (table.take_rows(kept) if gone else table), held_out


def _targets(estimator: Any, cells: Sequence[str], target: str) -> Any:
    """Return the numbers, or the classes by their names."""
    if not estimator._labels:
        numbers = [number(cell) for cell in cells]
        if None in numbers:
            raise DataError(f"the target {target!r} is not numeric in row {numbers.index(None) + 1}")
        return np.array(numbers, dtype=np.float64)
    names: Mapping[str, Any] = {str(label): label for label in estimator.classes_}
    labels = [cell if cell in names else str(int(float(cell))) if number(cell) is not None else cell for cell in cells]
    strange = [row for row, cell in enumerate(labels, 1) if cell not in names]
    if strange:
        raise DataError(
            f"the target {target!r} has {cells[strange[0] - 1]!r} in row {strange[0]}; the classes of the model are "
            f"{named_columns(list(names))}"
        )
    return np.array([names[cell] for cell in labels])
