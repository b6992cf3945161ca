"""The terminal app in a browser of this machine, by textual-serve, behind a token.

`server` answers page, files and websocket; each open page has an app process of its own, which ends
with the page. Trainings are processes of their own and continue.
"""
