"""Models with their exact posteriors, stated in NumPy alone."""
