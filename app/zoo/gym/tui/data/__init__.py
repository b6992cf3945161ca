"""Data: what a file of examples would teach, row by row."""
