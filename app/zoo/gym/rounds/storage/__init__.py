"""Where the files of a round lie: a folder, an object store, a web server.

All are used as dumb storage: named bytes that never change, and a few pointers that do.
"""
