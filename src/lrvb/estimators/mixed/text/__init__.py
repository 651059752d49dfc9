"""A formula as text: brackets, bars, and the error that points at a place."""
