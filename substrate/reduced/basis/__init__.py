"""Rules that select the points of a reduced basis, all of them by kernel values only."""
