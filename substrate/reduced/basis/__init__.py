"""Which points to build a reduced basis of: one rule a file, all of them on kernel values only."""
