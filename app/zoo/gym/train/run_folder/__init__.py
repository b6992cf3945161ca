"""The files of a run: settings, environment, split, base digests and checkpoints."""
