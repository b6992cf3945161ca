"""Number formats: how weights are stored, widened and multiplied."""
