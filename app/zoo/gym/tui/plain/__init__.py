"""The app without a screen: questions by line, for screen readers, plain terminals and pipes.

`steps` is the table of what can be done, `talk` asks and runs the commands.
"""
