"""Search with a lower bound: gamma over a spectrum, and the exact paths of zeta and rho."""
