"""What every server of ours needs in front of its routes, and how it starts and stops.

`gate` decides who may ask, `requests` limits and answers them, `connections` are uvicorn with time
limits, `run` has the tokens and the process. The routes and their data are the server's own.
"""
