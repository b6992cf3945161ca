"""Evaluation of a model on rows it has not learned from."""

from zoo.gym.evaluate.held_out import Score, held_out, row_nats
from zoo.gym.evaluate.kl import mean_kl

__all__ = ["Score", "held_out", "mean_kl", "row_nats"]
