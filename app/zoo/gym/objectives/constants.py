"""The numbers of a window that objectives divide by, so that micro-batches add up to it."""

WINDOW_TOKENS = "window_tokens"
"""Learned tokens of the whole optimizer step."""

WINDOW_UNITS = "window_units"
"""Units of the whole optimizer step: rows, pairs or groups."""
