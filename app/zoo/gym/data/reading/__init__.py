"""Reads data files of any known format into records."""
