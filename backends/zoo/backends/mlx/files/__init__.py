"""Models read from their files: architectures, weights, codes."""
