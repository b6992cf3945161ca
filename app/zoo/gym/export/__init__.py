"""Writes a fine-tune in formats of other programs: one file and a table line a format."""
