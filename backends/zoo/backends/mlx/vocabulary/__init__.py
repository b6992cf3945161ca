"""The head and the statistics of tokens, in chunks."""
