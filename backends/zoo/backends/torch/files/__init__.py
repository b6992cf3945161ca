"""Models read from their files, with the names of their tensors."""
