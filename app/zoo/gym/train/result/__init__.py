"""The result of a run: the best weights, model card, origin, verification and copy."""
