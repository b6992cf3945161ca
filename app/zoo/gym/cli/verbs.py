"""The table of commands: the words that call one, where it lives, what it does.

Everything that lists commands reads this: the parser, the help, the reference page and its test.
"""

from typing import NamedTuple


class Verb(NamedTuple):
    """A command: its words, `module:function`, what may follow the words, one sentence."""

    words: str
    target: str
    usage: str
    summary: str


GROUPS = {
    "runs": "Lists, follows and steers training runs.",
    "delta": "Makes, applies and checks small files that turn a base model into a tuned one.",
    "data": "Looks at files of examples.",
}
"""First words that take a second one."""

VERBS = (
    Verb("train", "train:train", "[ITEM ...]", "Trains a model on files of examples."),
    Verb("runs list", "runs:list_runs", "", "Lists the runs, newest first."),
    Verb("runs show", "runs:show", "RUN", "Shows a run's state, settings and result."),
    Verb("runs tail", "runs:tail", "RUN", "Prints a run's events until it ends."),
    Verb("runs pause", "runs:pause", "RUN", "Holds a run, or with --park saves it and leaves."),
    Verb("runs resume", "runs:resume", "RUN", "Goes on with a paused or interrupted run."),
    Verb("runs stop", "runs:stop", "RUN", "Saves a run and ends its process."),
    Verb("runs finish", "runs:finish_run", "RUN", "Ends a run early and keeps its best step."),
    Verb("runs rename", "runs:rename", "RUN NAME", "Gives a run a name to call it by."),
    Verb("runs remove", "runs:remove", "RUN", "Deletes a run with all that it has made."),
    Verb("delta create", "delta:create", "SOURCE", "Compresses a fine-tune to a small file."),
    Verb("delta apply", "delta:apply", "FILE", "Rebuilds the tuned model from base and delta."),
    Verb("delta info", "delta:info", "FILE", "Shows the header of a delta file."),
    Verb("delta check", "delta:check", "FILE", "Checks a delta file and measures it again."),
    Verb("data inspect", "data:inspect", "FILE ...", "Shows what training would learn."),
    Verb("chat", "chat:chat", "", "Talks with a model; a pipe gives a prompt a line."),
    Verb("plan", "plan:plan", "", "Shows what deltas weigh, for one user and for many."),
    Verb("models", "models:models", "", "Lists the models, and which are here."),
    Verb("demo", "demo:demo", "", "Does the whole job on the built-in model."),
    Verb("doctor", "doctor:doctor", "", "Tests this machine; tells what fits and is missing."),
    Verb("paths", "paths:paths", "", "Shows the folders that zoo-gym uses."),
)
"""Every command."""


def children(group: str) -> list[str]:
    """Returns the second words of a group, or the first words of all when `group` is empty."""
    if group:
        return [verb.words.split()[1] for verb in VERBS if verb.words.startswith(f"{group} ")]
    return list(dict.fromkeys(verb.words.split()[0] for verb in VERBS))


def known_words(words: list[str]) -> str:
    """Returns as much of `words` as names a command or a group: `runs list`, `runs`, or ``."""
    two = " ".join(words[:2])
    if any(verb.words == two for verb in VERBS):
        return two
    return words[0] if words and words[0] in children("") else ""
