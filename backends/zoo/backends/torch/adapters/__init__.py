"""Adapters through peft: where they go, how they are added, loaded and saved."""
