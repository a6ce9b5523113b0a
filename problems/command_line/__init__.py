"""The command ``substrate``."""
