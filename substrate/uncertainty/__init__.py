"""How sure a fitted machine is: intervals, bands, probabilities, from the inverse that leave-one-out already uses."""
