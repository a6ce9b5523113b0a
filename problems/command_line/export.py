"""``substrate export``: a model file as ONNX."""

import argparse

from problems.command_line.interruption import Interruption
from substrate.errors import DataError

__all__ = ["add_export", "export_model"]

EXPORT = """examples:
  substrate export model.npz model.onnx
  substrate export model.npz model.onnx --tol 0.01

The file needs nothing of this package. It states how far its outputs can be from the
exact formula of the model in the box of its support vectors, all rounding counted
where exp and pow are right to 4 units of the last place.
Its inputs are the columns of the model, in their own units: of categories one 0-1
column each, of dates days since the first one.
"""


def add_export(export: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    export.add_argument("model", metavar="MODEL.npz", help="a model file of substrate fit --out, or of save")
    export.add_argument("out", metavar="OUT.onnx", help="file to write")
    export.add_argument("--tol", type=float, help="largest loss of float32 (a thousandth of the spread)")
    export.add_argument("--coverage", type=float, help="intervals too, of a calibrated regressor, for instance 0.9")
    export.add_argument("--no-proba", action="store_true", help="leave the probabilities of classes out")
    export.add_argument("--max-bytes", type=float, metavar="BYTES", help="memory that MODEL.npz may take (1 GiB)")


def export_model(options: argparse.Namespace, interruption: Interruption) -> list[str]:
    """Write the file, and return what it promises."""
    import problems
    from problems.export import to_onnx
    from problems.export.described import PreparedModel
    from problems.tables.tabular_model import TabularModel, refuse_absent_model

    if not options.out.lower().endswith(".onnx"):
        raise DataError(f"the file is an ONNX graph, and {options.out} does not end with .onnx; name it so")
    refuse_absent_model(options.model)
    estimator, notes = problems.load_with_notes(options.model, options.max_bytes)
    if notes is not None and "series" in notes:
        raise DataError(
            f"{options.model} forecasts a series, from window to window; export its function of one window in Python: "
            "to_onnx(problems.load(MODEL).regressor_)"
        )
    loaded = TabularModel.of(estimator, notes, options.model)
    model = loaded.estimator
    if loaded.preparation is not None:
        model = PreparedModel.of(model, loaded.preparation)
    interruption.check()
    probabilities = not options.no_proba
    export = to_onnx(model, options.out, tol=options.tol, coverage=options.coverage, probabilities=probabilities)
    return [str(export), f"written: {options.out}"]
