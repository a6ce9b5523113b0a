"""The report of a fit: one page of HTML that stands alone."""
