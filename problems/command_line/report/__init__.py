"""The report of a fit: one self-contained page of HTML."""
