"""The delta file format, version 1: header, terms and their parts, reader and writer."""
