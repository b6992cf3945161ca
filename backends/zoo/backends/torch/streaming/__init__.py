"""A base whose weights stay in its files: each layer's are in memory while it is computed."""
