"""The page for users of LS-SVMlab has a row for every function of it, and its names exist."""

import re
from importlib import import_module
from pathlib import Path

import problems
import substrate.kernels

PAGE = Path(__file__).resolve().parents[2] / "docs" / "lssvmlab.md"
#: The functions of version 1.8.
NAMES = """
AFEm MLP_kernel RBF_kernel bay_errorbar bay_initlssvm bay_lssvm bay_lssvmARD bay_modoutClass bay_optimize bay_rr
bitreverse32 changelssvm cilssvm code code_ECOC code_MOC code_OneVsAll code_OneVsOne codedist_bay codedist_hamming
codedist_loss codelssvm crossvalidate crossvalidatelssvm csa demo_fixedclass demo_fixedsize demo_yinyang democlass
democonfint demofun demomodel demomulticlass denoise_kpca eign gcrossvalidate gcrossvalidatelssvm gridsearch initlssvm
kentropy kernel_matrix kernel_matrix2 kpca latentlssvm latticeseq_b2 leaveoneout leaveoneoutlssvm lin_kernel
linesearch linf lssvm lssvmMATLAB mae medae misclass mse plotlssvm poly_kernel postlssvm predict predlssvm
preimage_rbf prelssvm progress range rcrossvalidate rcrossvalidatelssvm ridgeregress robustlssvm roc rsimplex simann
simlssvm simplex smootherlssvm tbform trainlssvm trimmedmse tunelssvm weightingscheme windowize windowizeNARX
"""
FUNCTIONS = NAMES.split()


def rows():
    lines = [line.split("|") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    return {cells[1].strip(" `"): "|".join(cells[2:]) for cells in lines}


def test_every_function_has_one_row():
    text = PAGE.read_text(encoding="utf-8")
    assert len(FUNCTIONS) == len(set(FUNCTIONS)) == 82
    assert set(rows()) == set(FUNCTIONS)
    assert sum(line.startswith("| `") for line in text.splitlines()) == 82


def test_names_of_this_package_exist():
    """Classes, methods and functions that a row names are there."""
    checked = 0
    words = {name for kind in problems.ESTIMATORS for name in dir(getattr(problems, kind))}
    for text in rows().values():
        for code in re.findall(r"`([^`]+)`", text):
            name = code.split("(")[0]
            if name.startswith("substrate."):
                module, symbol = name.rsplit(".", 1)
                assert hasattr(import_module(module), symbol), name
            elif re.fullmatch(r"[A-Z]\w+(\.\w+)?", name):
                first, _, method = name.partition(".")
                owner = problems if hasattr(problems, first) else substrate.kernels
                kind = substrate.basis.Basis if first == "Basis" else getattr(owner, first)
                assert not method or hasattr(kind, method), name
            elif name in ("confidence_band", "rank_inputs", "predict_interval", "effective_parameters_"):
                assert name in words, name
            else:
                continue
            checked += 1
    assert checked >= 30
