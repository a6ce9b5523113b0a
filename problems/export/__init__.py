"""Fitted models for programs without this package: ``from problems.export import to_onnx``.

A graph of ONNX is written from the formula of the model (``substrate.kernels.nodes``), which bounds how much rounding
may change its values in a box.
"""

from problems.export.files import Export, to_onnx

__all__ = ["Export", "to_onnx"]
