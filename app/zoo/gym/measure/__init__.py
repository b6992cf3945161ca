"""Measures a model on rows that it has not learned from: losses and divergences."""

from zoo.gym.measure.held_out import Score, held_out, row_nats
from zoo.gym.measure.kl import mean_kl

__all__ = ["Score", "held_out", "mean_kl", "row_nats"]
