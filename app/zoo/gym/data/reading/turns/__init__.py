"""Parses the turns of chats, and the calls and definitions of tools."""
