"""Rewards that run the code of a response, confined by the system."""
