"""Who works on the spans of a pass: this process, its threads, or the workers of a Dask cluster."""
