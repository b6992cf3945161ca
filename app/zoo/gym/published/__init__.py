"""The published names: trainers, DeltaSoup, the client, and what they have in common."""
