"""Reads what deltas are made of and applied to: model folders, weight files and adapters."""
