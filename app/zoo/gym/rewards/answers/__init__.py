"""Rewards that compare a response with the answer of its row."""
