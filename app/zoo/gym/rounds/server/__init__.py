"""A server of rounds: the storage contract over HTTP, with checks of everything that is written.

`served` has the rules and knows no HTTP, `app` the requests, `run` the process; who may ask is
decided by `zoo.gym.http_guard`.
"""
