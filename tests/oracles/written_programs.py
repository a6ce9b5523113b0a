"""Programs that were written as C, JavaScript and ONNX, run by what is installed here."""

import json
import shutil
import subprocess

import numpy as np
import pytest

COMPILER = shutil.which("cc") or shutil.which("gcc")
NODE = shutil.which("node")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc, gcc) is installed here")
needs_node = pytest.mark.skipif(NODE is None, reason="Node.js is not installed here")

_MAIN = """
#include "%s"
#include <stdio.h>
int main(void)
{
    double x[MODEL_INPUTS], out[MODEL_OUTPUTS];
    for (;;) {
        for (int i = 0; i < MODEL_INPUTS; ++i)
            if (scanf("%%lf", x + i) != 1) return 0;
        model(x, out);
        for (int i = 0; i < MODEL_OUTPUTS; ++i) printf("%%.17g ", out[i]);
        %s
        printf("\\n");
    }
}
"""


def run_c(text, X, folder, has_labels=False):
    """Compile a file of C without a warning and return its outputs, one row for each of X, and the labels."""
    (folder / "model.c").write_text(text, encoding="utf-8")
    said = 'printf("%s", model_labels[(int)out[MODEL_LABEL]]);' if has_labels else ""
    (folder / "main.c").write_text(_MAIN % ("model.c", said), encoding="utf-8")
    flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    subprocess.run([COMPILER, *flags, str(folder / "main.c"), "-o", str(folder / "main"), "-lm"], check=True)
    rows = "\n".join(" ".join(map(repr, row)) for row in X.tolist())
    done = subprocess.run([str(folder / "main")], input=rows, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    width = text.split("MODEL_OUTPUTS ")[1].split()[0]
    cells = [line.split(" ", int(width)) for line in lines]
    return np.array([[float(cell) for cell in row[: int(width)]] for row in cells]), [row[int(width)] for row in cells]


def run_javascript(text, X, folder):
    """Return what a script returns for every row of X."""
    (folder / "model.js").write_text(text, encoding="utf-8")
    program = "const m = require(process.argv[1]); const rows = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
    program += "console.log(JSON.stringify(rows.map(row => m(row.map(cell => cell === null ? NaN : cell)))));"
    done = subprocess.run(
        [NODE, "-e", program, str(folder / "model.js")],
        input=json.dumps(np.where(np.isnan(X), None, X.astype(object)).tolist()),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def run_onnx(content, X):
    """Return the outputs of a graph by name, at rows of its precision."""
    runtime = pytest.importorskip("onnxruntime", reason='onnxruntime is not installed: pip install ".[onnx]"')
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    kind = np.float32 if session.get_inputs()[0].type == "tensor(float)" else np.float64
    return dict(zip(names, session.run(names, {session.get_inputs()[0].name: X.astype(kind)}), strict=True))
