"""The demo: the complete workflow on the built-in model, with every step measured."""
