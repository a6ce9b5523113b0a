"""Tables and frames as they come: how their columns are read, fitted and predicted, as ``substrate fit`` does it."""
