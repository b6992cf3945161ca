"""Sampling from a model: batches of rows, the state kept between tokens, and the random streams."""
