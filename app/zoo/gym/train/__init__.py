"""The training loop, its data, its plan and its result."""
