"""Searches settings of training by Optuna, within a budget."""
