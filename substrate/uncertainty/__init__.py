"""How sure a fitted machine is: prediction intervals and regions, from the inverse that leave-one-out already uses."""
