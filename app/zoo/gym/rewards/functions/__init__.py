"""Rewards that are functions of the user: from a file, or passed in Python."""
