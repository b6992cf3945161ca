"""Rewards and reputation: what each contributor's part of a result is worth, in whole points."""
