"""The result of a run: the best weights, their card and origin, the copy and its check."""
