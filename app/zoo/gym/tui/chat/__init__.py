"""Chat: models side by side on the same prompt, and their server."""
