"""The four steps: fit, linearize, respond, and one order beyond."""
