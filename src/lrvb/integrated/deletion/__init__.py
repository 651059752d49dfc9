"""log p(y_b | y_−b, θ) of blocks of rows, given θ: what leaving them out takes from the density."""
