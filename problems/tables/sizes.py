"""Sizes from which tables are treated otherwise, which the help of the command line names too."""

__all__ = ["BASIS", "EVALUATIONS", "FEWEST_STACKED", "MOST_CATEGORIES", "MOST_DENSE", "MOST_STACKED"]

#: Training rows up to which the model ``auto`` decomposes the kernel matrix of all of them.
MOST_DENSE = 2000
#: Rows, those held out among them, up to which the model ``auto`` is a stack of machines.
MOST_STACKED = 1000
#: Training rows from which on it is: of fewer the weights of as many machines would be chance.
FEWEST_STACKED = 20
#: Vectors of the basis of a sparse model, unless given.
BASIS = 300
#: Evaluations of the search for a kernel, unless given.
EVALUATIONS = 40
#: Text with at most so many values is coded one-hot without being asked to.
MOST_CATEGORIES = 50
