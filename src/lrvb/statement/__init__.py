"""What is stated: blocks of a posterior, a model, and the problem it makes of data."""
