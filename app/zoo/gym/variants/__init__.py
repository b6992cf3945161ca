"""Many people's variants of one base: delta files under the names of their users.

`store` has the files, `register` makes them of runs, `index` lists them.
"""
