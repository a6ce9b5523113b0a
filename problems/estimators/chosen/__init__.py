"""Machines that choose a parameter by validation, with a proof."""
