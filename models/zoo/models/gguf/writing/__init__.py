"""Writes GGUF files: `settings` and `vocabulary` give the header, `tensors` and `types` the rest.

Nothing here loads a model or starts another program. Files that llama.cpp would read otherwise than
transformers are refused by name, not written.
"""
