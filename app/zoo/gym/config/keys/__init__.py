"""The settings that all methods have, by purpose; `TrainConfig` has them all, and checks them."""
