"""The delta file format: header, terms and their parts, reader and writer."""
