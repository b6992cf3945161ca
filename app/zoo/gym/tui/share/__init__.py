"""What the place Share asks of commands, and the words for it; no widgets."""
