"""The names of what objectives read from a batch, beside its mask.

The constants of a window are what a loss divides by, so that its micro-batches add up.
"""

WINDOW_TOKENS = "window_tokens"
"""Learned tokens of the whole optimizer step."""

WINDOW_UNITS = "window_units"
"""Units of the whole optimizer step: rows, pairs or groups."""

WINDOW_FIRST_TOKENS = "window_first_tokens"
"""Learned tokens of the first row of each unit: of a pair, the better answer's."""

REF_LOGPROBS = "ref_logprobs"
"""The log-probabilities of a reference model, `[B, T]`."""

LOGPROB_WEIGHTS = "logprob_weights"
"""The weight of each token in the log-probability of its answer, `[B, T]`; 1 if absent."""

WINDOW_ROWS = "window_rows"
"""Rows of the whole optimizer step."""

WINDOW_SELECTED = "window_selected"
"""Learned tokens that a method selected, of the whole optimizer step."""
