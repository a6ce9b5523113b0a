"""Fitted models for programs without this package: ONNX, C and JavaScript, and machines on fewer vectors.

``from problems.export import to_onnx, to_c, to_javascript, compress``. All three files are written from one formula of
the model (:mod:`substrate.formulas`), which says how much rounding may change its values in a box.
"""

from problems.export.compressed import CompressedMachine, compress
from problems.export.files import Export, to_c, to_javascript, to_onnx

__all__ = ["CompressedMachine", "Export", "compress", "to_c", "to_javascript", "to_onnx"]
