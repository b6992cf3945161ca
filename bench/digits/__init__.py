"""A small real fine-tune on which attacks are tried: handwritten digits, shifted and mirrored."""
