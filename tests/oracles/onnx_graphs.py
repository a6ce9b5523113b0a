"""Graphs of ONNX, run by onnxruntime."""

import numpy as np
import pytest


def run_onnx(content, X):
    """Return the outputs of a graph by name, at rows of its precision."""
    runtime = pytest.importorskip("onnxruntime", reason='onnxruntime is not installed: pip install ".[onnx]"')
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    kind = np.float32 if session.get_inputs()[0].type == "tensor(float)" else np.float64
    return dict(zip(names, session.run(names, {session.get_inputs()[0].name: X.astype(kind)}), strict=True))
