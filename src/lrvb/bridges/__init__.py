"""Translations to and from other libraries; each imports its library in its own file."""
