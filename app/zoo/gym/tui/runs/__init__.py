"""Runs: the list, one run with its charts, answers and actions, and its export."""
