"""The form that merges fine-tunes of one base into a model."""

import shlex

from zoo.gym.terminal import visible
from zoo.gym.tui.share.action import Action, Field, Values, option
from zoo.gym.tui.share.asking import Answer
from zoo.gym.tui.share.deltas import done_runs
from zoo.gym.tui.words import split

METHODS = (
    ("linear: the mean of the weights", "linear"),
    ("slerp: along the arc between two", "slerp"),
    ("task arithmetic: the sum of what each changed", "task_arithmetic"),
    ("ties: changes that agree in sign", "ties"),
    ("dare_ties: the same of a random share", "dare_ties"),
    ("dare_linear: a random share of each change", "dare_linear"),
)


def merging() -> Action:
    """Returns the form, with the newest two runs in it."""
    newest = " ".join(run.id for run in done_runs()[:2])
    fields = (
        Field("sources", "Runs, small files and model folders", newest, "r0001 r0002"),
        Field("method", "Method", "linear", choices=METHODS),
        Field("weights", "Weights, one a source", placeholder="2,1", optional=True),
        Field("out", "Folder to write", "merged", is_path=True),
    )
    text = (
        "Makes one model of several fine-tunes of one base. eval tells whether it is better than "
    )
    return Action("merge models", f"{text}each alone.", "Merge", _words, fields, done=_merged)


def _words(values: Values) -> list[str]:
    method = ["--method", values["method"]]
    weights = option("--weights", values["weights"])
    return [
        "merge",
        *split(values["sources"]),
        *method,
        *weights,
        "--out",
        values["out"],
        "--offline",
    ]


def _merged(answer: Answer) -> str:
    folder, sources = str(answer.value["folder"]), map(str, answer.value["sources"])
    command = visible(shlex.join(["zoo-gym", "eval", folder, *sources]))
    return f"Merged: {visible(folder)}. Whether it is better: {command}"
