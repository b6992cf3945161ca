"""The delta file, version 1: header, terms and their parts, reader and writer."""
