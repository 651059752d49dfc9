"""Rows in partitions: what they are found to be, their sums, and the design that stands for them."""
