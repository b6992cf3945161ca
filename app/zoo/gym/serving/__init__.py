"""Serves a model and many people's variants of it to programs that speak OpenAI's API.

`engine` is the thread that computes, `variants` are the names that can be asked for, `wire` reads
requests and writes responses as OpenAI does, `routes` joins these, `run` starts and stops it.
"""
