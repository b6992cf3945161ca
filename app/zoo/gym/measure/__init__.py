"""Measures a model on rows that it has not learned from: losses and divergences."""

from zoo.gym.measure.divergence import Divergence, divergence
from zoo.gym.measure.held_out import Score, held_out, row_nats

__all__ = ["Divergence", "Score", "divergence", "held_out", "row_nats"]
