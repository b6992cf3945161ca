"""Tasks of reasoning-gym as rows, and the reward that scores answers to them by their own rules."""
