"""Labelled answers: what a posterior is made of, and what it says."""
