"""Home: what is here, what runs, what to do next; and the way from rows to settings."""
