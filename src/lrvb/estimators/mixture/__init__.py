"""GaussianMixture and its parts."""
