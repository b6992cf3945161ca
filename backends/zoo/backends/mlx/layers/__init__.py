"""Layers with an adapter, and what they share in a pass."""
