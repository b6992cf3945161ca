"""Evaluation of a model on rows it has not learned from."""

from zoo.gym.evaluate.held_out import Score, held_out
from zoo.gym.evaluate.kl import mean_kl

__all__ = ["Score", "held_out", "mean_kl"]
