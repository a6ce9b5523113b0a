"""Sizes from which tables are treated otherwise, which the help of the command line names too."""

__all__ = ["BASIS", "EVALUATIONS", "MOST_CATEGORIES", "MOST_DENSE"]

#: Training rows up to which the model ``auto`` decomposes the kernel matrix of all of them.
MOST_DENSE = 2000
#: Vectors of the basis of a sparse model, unless given.
BASIS = 300
#: Evaluations of the search for a kernel, unless given.
EVALUATIONS = 40
#: Text with at most so many values is coded one-hot without being asked to.
MOST_CATEGORIES = 50
