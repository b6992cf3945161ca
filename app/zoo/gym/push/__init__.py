"""Uploads a model or a delta to the Hub, after a typed consent."""
