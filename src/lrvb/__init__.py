"""Linear response variational Bayes."""
