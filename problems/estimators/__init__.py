"""scikit-learn estimators: thin facades over the problems, one family a file."""
