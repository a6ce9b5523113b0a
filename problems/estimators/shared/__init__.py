"""The common parts of all estimators: the base class, coded labels, leave-one-out, model files."""
