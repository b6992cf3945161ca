"""Optimizers over named parameters: `table` has the makers, `named` steps, saves and restores."""
