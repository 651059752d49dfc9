"""The figures of the paper's experiments: one file each, functions of saved tables."""
