"""Any factors, any response: a Gaussian block of coefficients given θ, its evidence mended, θ integrated."""
