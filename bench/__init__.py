"""Benchmarks against plain alternatives, in one process, printed as ratios."""
