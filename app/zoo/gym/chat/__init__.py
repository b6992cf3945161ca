"""Chat with a model, an adapter, or a delta on its base."""

from zoo.gym.chat.session import ChatSession, open_chat

__all__ = ["ChatSession", "open_chat"]
