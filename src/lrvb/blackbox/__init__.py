"""Any log density: modes, Gaussian fits on fixed draws, their linear response, and short HMC."""
