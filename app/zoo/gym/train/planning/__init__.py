"""What a run will do and need: its plan, and whether it fits into memory."""
