"""The paper's experiments, the exact and sampled posteriors that referee them, and their figures."""
