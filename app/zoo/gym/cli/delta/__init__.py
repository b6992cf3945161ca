"""`zoo-gym delta`: creates, applies, shows and checks deltas."""
