"""The main job on the built-in model, with every step measured."""
