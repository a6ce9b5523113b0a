"""What all estimators share: the base class, coded labels, leave-one-out, model files."""
