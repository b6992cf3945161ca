"""The kinds of round, a file for each; `zoo.gym.rounds.kind` has their table."""
