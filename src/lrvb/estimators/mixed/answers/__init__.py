"""What a user asks of a fitted mixed model."""
