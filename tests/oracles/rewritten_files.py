"""Model files written again by somebody else: what is in them is changed, and every sum and size is right."""

import io
import json
import zipfile

import numpy as np

import problems
from problems.estimators.shared.saved import OUTSIDE
from substrate import archive


def rewrite(path, change, digest=True):
    """Let ``change(header, arrays)`` edit what a file says, and write it again with every sum and size right.

    ``digest=False`` keeps that of the old contents, as who edits by hand does.
    """
    with zipfile.ZipFile(path) as stored:
        header = json.loads(stored.read("header.json"))
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files if name != "header.json"}
    change(header, arrays)
    header["arrays"] = {n: {"dtype": a.dtype.str, "shape": list(a.shape)} for n, a in arrays.items()}
    members = {name: npy_bytes(array) for name, array in arrays.items()}
    if digest and "digest" in header:
        sums = {name: archive._sum(data) for name, data in members.items()}
        header["digest"] = archive._digest(header["version"], header["arrays"], header["content"], sums)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as stored:
        stored.writestr("header.json", json.dumps(header))
        for name, data in members.items():
            stored.writestr(f"{name}.npy", data)


def npy_bytes(array):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


#: Parameters that release 0.1 knew by another name, and those that it did not know.
CALLED_TOL = ("cg_tol", "weights_tol", "adaline_tol")
UNKNOWN_THEN = ("tol", "zeta_min")


def as_of_release_0_1(path, **others):
    """Turn a file into what release 0.1 wrote: version 1, no digest, and every parameter that the estimator had."""

    def turn_back(header, arrays):
        header["version"] = 1
        header.pop("digest", None)
        content = header["content"]
        defaults = getattr(problems, content["estimator"])().get_params(deep=False)
        own = {key: value for key, value in content["parameters"].items() if key not in UNKNOWN_THEN}
        own = {"tol" if key in CALLED_TOL else key: value for key, value in own.items()}
        content["parameters"] = own | {key: value for key, value in defaults.items() if key in OUTSIDE} | others

    rewrite(path, turn_back)
