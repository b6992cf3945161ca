"""What a result or a delta was made from, and how its readers load and ask it."""
