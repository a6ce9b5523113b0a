"""The best gamma, or width and gamma, of a whole range, with a lower bound over that range."""
