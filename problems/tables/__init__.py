"""Raw tables and frames: how their columns are read, fitted and predicted, as by ``substrate fit``."""
