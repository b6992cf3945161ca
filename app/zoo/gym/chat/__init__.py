"""Talking with a model, an adapter, or a delta on its base."""

from zoo.gym.chat.session import ChatSession, generate, open_chat

__all__ = ["ChatSession", "generate", "open_chat"]
