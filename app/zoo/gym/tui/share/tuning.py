"""The form that searches settings of a training within a budget."""

import shlex

from zoo.gym.terminal import visible
from zoo.gym.tui.share.action import Action, Field, Values
from zoo.gym.tui.share.asking import Answer
from zoo.gym.tui.words import split


def tuning(path: str = "", model: str = "zen-pico") -> Action:
    """Returns the form, for a file of examples if there is one."""
    ranges = "learning_rate=1e-4..1e-2 lora_rank=4,8,16"
    fields = (
        Field("file", "File of examples", path, "my-chats.jsonl", is_path=True),
        Field("model", "Model", model),
        Field("search", "Settings to search: KEY=LOW..HIGH or KEY=A,B,C", ranges),
        Field("trials", "Trials", "8"),
        Field("minutes", "Minutes after which none starts", "30"),
    )
    text = "Each trial is a run, measured on rows that are held out; the best settings become a "
    text += "file. A search that ends early continues with the same command."
    return Action("tune settings", text, "Search", _words, fields, done=_tuned)


def _words(values: Values) -> list[str]:
    limits = ["--trials", values["trials"], "--minutes", values["minutes"]]
    return ["tune", values["file"], *split(values["search"]), "--model", values["model"], *limits]


def _tuned(answer: Answer) -> str:
    run, recipe = answer.value["run"], answer.value["recipe"]
    command = f" Train with its settings: {shlex.join(['zoo-gym', 'train', recipe, 'FILE'])}"
    return visible(f"The best trial is {run}.{command if recipe else ''}")
