"""The MLX engine: Apple GPUs through Metal, and any CPU for tests."""
