"""Reads the inputs of deltas: model folders, weight files and adapters."""
