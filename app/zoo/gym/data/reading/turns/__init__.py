"""Parses the turns of chats."""
