"""Citations: whom to name when a dataset is used, under the keys the docstrings use."""

__all__ = ["cite"]

_REFERENCES = {
    "Aha1991": "D. W. Aha (1991). Incremental constructive induction: an instance-based approach. "
    "Proceedings of the Eighth International Workshop on Machine Learning, 117-121.",
    "HarrisonRubinfeld1978": "D. Harrison and D. L. Rubinfeld (1978). Hedonic housing prices and "
    "the demand for clean air. Journal of Environmental Economics and Management 5(1), 81-102.",
    "Pelckmans2005": "K. Pelckmans, J. A. K. Suykens and B. De Moor (2005). Building sparse "
    "representations and structure determination on LS-SVM substrates. Neurocomputing 64, 137-159.",
    "Ripley1996": "B. D. Ripley (1996). Pattern Recognition and Neural Networks. Cambridge University Press.",
    "Sigillito1989": "V. G. Sigillito, S. P. Wing, L. V. Hutton and K. B. Baker (1989). "
    "Classification of radar returns from the ionosphere using neural networks. Johns Hopkins APL "
    "Technical Digest 10(3), 262-266.",
    "Silverman1985": "B. W. Silverman (1985). Some aspects of the spline smoothing approach to "
    "non-parametric regression curve fitting. Journal of the Royal Statistical Society, Series B "
    "47(1), 1-52.",
    "Smith1988": "J. W. Smith, J. E. Everhart, W. C. Dickson, W. C. Knowler and R. S. Johannes "
    "(1988). Using the ADAP learning algorithm to forecast the onset of diabetes mellitus. "
    "Proceedings of the Symposium on Computer Applications in Medical Care, 261-265.",
    "Suykens2002": "J. A. K. Suykens, J. De Brabanter, L. Lukas and J. Vandewalle (2002). Weighted "
    "least squares support vector machines: robustness and sparse approximation. Neurocomputing "
    "48, 85-105.",
    "Vapnik1998": "V. N. Vapnik (1998). Statistical Learning Theory. Wiley.",
}


def cite(*keys: str) -> str:
    """Return the references under ``keys``, one a line, each after its key in brackets."""
    return "\n".join(f"[{key}] {_REFERENCES[key]}" for key in keys)
