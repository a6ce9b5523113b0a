"""K as a linear map: dense, on a basis, in tiles or in passes over rows; its solve with a border, and its spectrum."""
