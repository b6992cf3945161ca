"""The tasks that models are measured on: a line of `table` each, read from files of the user's."""
