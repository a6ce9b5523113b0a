"""One file per paper, one function per erratum: the printed statement and the corrected one, each with its number."""
