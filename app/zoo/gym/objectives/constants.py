"""The constants of a window that objectives divide by, so that its micro-batches add up."""

WINDOW_TOKENS = "window_tokens"
"""Learned tokens of the whole optimizer step."""

WINDOW_UNITS = "window_units"
"""Units of the whole optimizer step: rows, pairs or groups."""
