"""The machine with the squared hinge, the 2-norm SVM: its active set, and bounds on the answer."""
