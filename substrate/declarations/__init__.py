"""What declared problems share: the record of a declaration, expansions, optimality conditions."""
