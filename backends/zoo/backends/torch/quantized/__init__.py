"""Bases whose linear layers are stored in 4 or 8 bits while an adapter is trained (QLoRA)."""
