"""``substrate export``: a model file as ONNX, C or JavaScript."""

import argparse
from pathlib import Path

from problems.command_line.interruption import Interruption
from substrate.errors import DataError

__all__ = ["add_export", "export_model"]

#: The targets by the end of the name of the file.
_ENDS = {".onnx": "onnx", ".c": "c", ".js": "js"}

EXPORT = """examples:
  substrate export model.npz model.onnx
  substrate export model.npz predict.js --name price
  substrate export model.npz small.c --compress 0.01

The file needs nothing of this package. It states how far its outputs can be from the
exact formula of the model in the box of its support vectors, all rounding counted
where exp and pow are right to 4 units of the last place.
Its inputs are the columns of the model, in their own units: of categories one 0-1
column each, of dates days since the first one.
"""


def add_export(export: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    export.add_argument("model", metavar="MODEL.npz", help="a model file of substrate fit --out, or of save")
    export.add_argument("out", metavar="OUT", help="file to write")
    export.add_argument("--to", choices=("onnx", "c", "js"), help="what to write; by the end of OUT unless given")
    export.add_argument("--name", default="model", help="name of the function of C and JavaScript (model)")
    export.add_argument("--tol", type=float, help="largest loss of float32 in ONNX (a thousandth of the spread)")
    export.add_argument(
        "--compress", type=float, metavar="TOL", help="first take fewer vectors, within TOL of the model"
    )
    export.add_argument("--coverage", type=float, help="intervals too, of a calibrated regressor, for instance 0.9")
    export.add_argument("--no-proba", action="store_true", help="leave the probabilities of classes out")
    export.add_argument("--max-bytes", type=float, metavar="BYTES", help="memory that MODEL.npz may take (1 GiB)")


def export_model(options: argparse.Namespace, interruption: Interruption) -> list[str]:
    """Write the file, and return what it promises."""
    import problems
    from problems.export import compress, to_c, to_javascript, to_onnx
    from problems.export.described import PreparedModel
    from problems.tables.tabular_model import TabularModel, refuse_absent_model

    target = options.to or _ENDS.get(Path(options.out).suffix.lower())
    if target is None:
        raise DataError(f"{options.out} does not end with {', '.join(_ENDS)}; say --to onnx, c or js")
    refuse_absent_model(options.model)
    estimator, notes = problems.load_with_notes(options.model, options.max_bytes)
    if notes is not None and "series" in notes:
        raise DataError(
            f"{options.model} forecasts a series, from window to window; export its function of one window in Python: "
            "to_onnx(problems.load(MODEL).regressor_)"
        )
    loaded = TabularModel.of(estimator, notes, options.model)
    model, said = loaded.estimator, []
    if options.compress is not None:
        model = compress(model, options.compress)
        record = dict(model.certificate_.record)
        said = [f"vectors: {record['vectors']}", model.certificate_.promise]
    if loaded.preparation is not None:
        model = PreparedModel.of(model, loaded.preparation)
    interruption.check()
    shared = {"coverage": options.coverage, "probabilities": not options.no_proba}
    if target == "onnx":
        export = to_onnx(model, options.out, tol=options.tol, **shared)
    else:
        if options.tol is not None:
            raise DataError("--tol is for ONNX, which may be float32; C and JavaScript are double precision")
        export = {"c": to_c, "js": to_javascript}[target](model, options.out, name=options.name, **shared)
    return [*said, str(export), f"written: {options.out}"]
