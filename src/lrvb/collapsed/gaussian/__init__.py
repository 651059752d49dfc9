"""All Gaussian coefficients of a mixed model in one factor, integrated out given the precisions."""
