"""The plan of a run, and the memory that it needs."""
