"""A model divided among processes: `divide` wraps its layers, `policy` trains with them."""
