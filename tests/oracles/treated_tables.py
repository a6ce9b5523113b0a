"""Tables whose columns are decided about as by ``substrate fit``, with refusals in the words of the command line."""

from types import SimpleNamespace

from problems.command_line.words import in_shell
from problems.tables.columns import treat
from substrate.errors import DataError

DEFAULTS = {"drop": (), "categories": (), "dates": (), "id": (), "group": None, "time": None, "impute": "refuse"}


def treated(table, target="y", task="auto", **options):
    """Return the table as it is treated, with remarks in the words of the command line too."""
    try:
        outcome = treat(table, SimpleNamespace(**DEFAULTS | {"categorical": "one-hot"} | options), target, task)
    except DataError as error:
        raise DataError(in_shell(str(error))) from error
    remarks = tuple(map(in_shell, outcome.remarks))
    return SimpleNamespace(table=outcome.table, inputs=outcome.inputs, task=outcome.task, y=outcome.y, remarks=remarks)
