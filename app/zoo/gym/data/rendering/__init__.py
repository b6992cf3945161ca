"""Renders chats with the template of the model, and finds the tokens that are learned."""
