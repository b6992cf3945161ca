"""Rewards for the form of a response: its blocks and its length."""
