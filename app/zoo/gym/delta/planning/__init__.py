"""Sizes of deltas before they exist, by formula, and a trial of them on synthetic weights."""
