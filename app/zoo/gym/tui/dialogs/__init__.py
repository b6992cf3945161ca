"""What asks or explains on top of a screen."""
