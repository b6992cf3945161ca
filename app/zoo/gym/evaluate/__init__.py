"""Measures models on tasks with answers: several sources on the same rows, with intervals."""
