"""What can be done by line: a row each, with its questions and the command that they make."""

from typing import NamedTuple

from zoo.gym.tui.words import split


class Question(NamedTuple):
    """A question.

    Attributes:
        text: what is asked.
        option: what stands before the answer on the command line; empty for an argument.
        default: the answer of an empty line; None needs an answer, "" leaves it out.
        is_pairs: whether the answer is several words with blanks between them.
        word: the only answer that adds the option, without a value.
    """

    text: str
    option: str = ""
    default: str | None = ""
    is_pairs: bool = False
    word: str = ""


class Step(NamedTuple):
    """What can be done: its title and the words of its command, which the answers follow."""

    title: str
    words: tuple[str, ...]
    questions: tuple[Question, ...] = ()


FILE = Question("File of examples", default=None)
MODEL = Question("Model", "--model", "zen-pico")
RUN = Question("Run", default="last")
SETTINGS = Question("Settings, KEY=VALUE ... (none is needed)", is_pairs=True)
ROUND = Question("Round: its folder, address or id (empty: the open one)")

STEPS = (
    Step("Find a way: from rows to method and settings", ("recommend",), (FILE, MODEL)),
    Step("Look at a file: what it would teach", ("data", "inspect"), (FILE, MODEL)),
    Step("Train", ("train",), (FILE, MODEL, SETTINGS)),
    Step(
        "Tune: search settings by trial runs",
        ("tune",),
        (
            FILE,
            MODEL,
            Question("Settings, KEY=LOW..HIGH or KEY=A,B,C", default=None, is_pairs=True),
        ),
    ),
    Step("List the runs", ("runs", "list")),
    Step("Follow a run", ("runs", "tail"), (RUN,)),
    Step("Resume a run", ("runs", "resume"), (RUN,)),
    Step("Chat with a run", ("chat",), (Question("Run", "--run", "last"),)),
    Step("Chat with a model", ("chat",), (MODEL,)),
    Step("Compare a run with its base", ("eval",), (RUN,)),
    Step("Compress a run to a small file", ("delta", "create"), (RUN,)),
    Step(
        "Export a run for other programs",
        ("export",),
        (
            RUN,
            Question("Format: ollama, lmstudio, gguf, hf, mlx, onnx ...", "--format", "ollama"),
            Question("File or folder to write (empty: named after the run)", "--out"),
        ),
    ),
    Step(
        "Merge fine-tunes to a model",
        ("merge",),
        (
            Question("Runs, small files, model folders", default=None, is_pairs=True),
            Question("Folder to write", "--out", "merged"),
        ),
    ),
    Step(
        "Start a round",
        ("round", "create"),
        (
            Question("Its name", default=None),
            Question("Base model", "--base", "zen-pico"),
            Question("A new folder for it, shared with the others", "--out", None),
            Question("Fewest contributors", "--min-contributors", "3"),
            Question("Form: lowrank for adapters, signs for full fine-tunes", "--form", "lowrank"),
        ),
    ),
    Step("Show a round", ("round", "show"), (ROUND,)),
    Step(
        "Contribute a run to a round",
        ("round", "contribute"),
        (
            RUN,
            Question("Round (empty: the open one)", "--round"),
            Question("Type send to commit; Enter only prepares it", "--send", word="send"),
        ),
    ),
    Step("Take in what others sent to a round of yours", ("round", "sync"), (ROUND,)),
    Step("End the phase of a round of yours", ("round", "sync", "--close", "--yes"), (ROUND,)),
    Step(
        "Reveal a contribution",
        ("round", "reveal"),
        (ROUND, Question("Type send to send the weights", "--send", word="send")),
    ),
    Step("Compute the result of a round", ("round", "aggregate"), (ROUND,)),
    Step("Verify a round: compute it again here", ("round", "verify"), (ROUND,)),
    Step(
        "Estimate lessons without training",
        ("experience", "estimate"),
        (Question("File of tasks", default=None), Question("Model", "--model", None)),
    ),
    Step(
        "Learn lessons without training",
        ("experience", "train"),
        (Question("File of tasks", default=None), Question("Model", "--model", None)),
    ),
    Step("List the models", ("models",)),
    Step("Download a model", ("models", "get"), (Question("Model", default=None),)),
    Step("Test this machine", ("doctor",)),
    Step("Demo: train, compress and test the built-in model", ("demo",)),
)


def words_of(step: Step, answers: list[str]) -> list[str]:
    """Returns the command that the answers make, without `zoo-gym`."""
    words = list(step.words)
    for question, answer in zip(step.questions, answers, strict=True):
        if question.word:
            words += [question.option] if answer == question.word else []
        elif question.is_pairs:
            words += split(answer)
        elif answer:
            words += [question.option, answer] if question.option else [answer]
    return words
