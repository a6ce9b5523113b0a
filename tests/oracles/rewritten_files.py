"""Model files written again by somebody else: what is in them is changed, and every sum and size is right."""

import io
import json
import zipfile

import numpy as np

from substrate import files


def rewrite(path, change, digest=True):
    """Let ``change(header, arrays)`` edit what a file says, and write it again with every sum and size right.

    ``digest=False`` keeps the digest of the old contents, as who edits by hand does.
    """
    with zipfile.ZipFile(path) as stored:
        header = json.loads(stored.read("header.json"))
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files if name != "header.json"}
    change(header, arrays)
    members = {name: npy_bytes(array) for name, array in arrays.items()}
    if digest and "digest" in header:
        sums = {name: files._sum(data) for name, data in members.items()}
        header["digest"] = files._digest(header["content"], sums)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as stored:
        stored.writestr("header.json", json.dumps(header))
        for name, data in members.items():
            stored.writestr(f"{name}.npy", data)


def inputs_of(header):
    """The inputs of a tabular model, as its file says them."""
    return header["content"]["fitted"]["preparation_"]["fields"]["inputs"]["items"]


def npy_bytes(array):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()
