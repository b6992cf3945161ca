"""Losses: pure functions of per-token statistics and masks, one file per family."""
