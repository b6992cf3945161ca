"""Rewards by other models: a judge that answers in words, and reward models."""
