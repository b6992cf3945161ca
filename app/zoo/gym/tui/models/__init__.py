"""Models: those on this machine and others, what fits, downloads."""
