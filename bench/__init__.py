"""Measurements against the plain alternative, in one process, printed as ratios."""
