"""Reads data files of any known format into records: text, JSON rows, chats, keys beside them."""
