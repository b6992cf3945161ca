"""Attacks on a round, and the trial of a rule against each of them."""
