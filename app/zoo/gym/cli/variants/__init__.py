"""`zoo-gym variants`: many people's fine-tunes of one base."""
