"""What the pages of :mod:`problems` share, so that a page holds its variables, constraints, rows and citations only."""
