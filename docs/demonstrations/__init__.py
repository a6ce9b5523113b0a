"""One file a paper, one function an erratum: the printed statement and the corrected one, each with its number."""
