"""Sizes of deltas in advance, by formula, and a check of them on synthetic weights."""
