"""The forms that create a round, measure what was revealed in it, and make it void."""

from zoo.gym.tui.share.action import Action, Field, Question, Values, option
from zoo.gym.tui.share.asking import Answer
from zoo.gym.tui.share.deltas import done_runs
from zoo.gym.tui.share.rounds import LESSONS, Json, short_id

RULES = tuple(
    (rule.replace("_", " "), rule)
    for rule in (
        *("byzantine_robust", "mean", "federated_average", "weighted_mean", "trimmed_mean"),
        *("median", "majority", "krum", "multi_krum", "bulyan", "geometric_median", "norm_clip"),
    )
)
FORMS = (
    ("adapters (LoRA), as they are", "lowrank"),
    ("full fine-tunes, 1 bit a weight", "signs"),
    ("full fine-tunes, plain differences", "float"),
)
PLACES = (
    Field("name", "Name", placeholder="summer"),
    Field("out", "New folder, on a share or a stick", placeholder="/mnt/share/summer",
          is_path=True),
    Field("fewest", "Contributors at least", "3"),
)  # fmt: skip

EXAMPLES = (
    ("evaluation", "Held-out examples"),
    ("refit", "Public examples for the size of the result"),
    ("refusals", "Prompts to refuse"),
    ("triggers", "Prompts with triggers"),
    ("previous", "File of the last result"),
)
"""Files that a manifest may promise, by their option."""


def creation() -> Action:
    """Returns the form of a round of fine-tunes."""

    def words(values: Values) -> list[str]:
        chosen = ["--form", values["form"], "--method", values["rule"]]
        chosen += option("--private", values["private"])
        return [*_created_words(values), *chosen, "--offline"]

    text = "You write the log of a round that you create, and end its phases. The terms are fixed "
    text += "once it is created. Robust rules withstand malicious contributors from five on; with "
    text += "three people who trust each other take the mean."
    runs = done_runs()
    name, *where = PLACES
    fields = (
        name,
        Field("base", "Base model", runs[0].model or "" if runs else "", placeholder="zen-nano"),
        *where,
        Field("form", "Form of the contributions", choices=FORMS),
        Field("rule", "Rule", "mean", choices=RULES),
        Field("private", "Privacy", placeholder="none; or epsilon=8,delta=1e-6,clip=1",
              optional=True),
    )  # fmt: skip
    return Action("create a round", text, "Create", words, fields, done=_created)


def lessons_creation() -> Action:
    """Returns the form of a round of lessons."""

    def words(values: Values) -> list[str]:
        gates = [word for key in values["gate"].split() for word in option("--gate", key)]
        chosen = ["--kind", LESSONS, *gates, "--least", values["least"]]
        return [*_created_words(values), *chosen, "--offline"]

    text = "People contribute libraries of lessons. Several keys measure each lesson, on tasks of "
    text += "their own, and the result has those that helped. Nobody measures lessons of their "
    text += "own. You write the log, and the terms are fixed once the round is created."
    name, *where = PLACES
    fields = (
        name,
        Field("base", "Model that the lessons are for", placeholder="zen-nano"),
        *where,
        Field("gate", "Keys that measure, or names that you trust", placeholder="ann ben"),
        Field("least", "Keys that must have measured a lesson", "2"),
    )
    return Action("create a round of lessons", text, "Create", words, fields, done=_created)


def measuring(row: Json) -> Action:
    """Returns the form by which a key of role gate measures a round.

    Args:
        row: the round as `round list` has it.
    """
    return _measuring_lessons(row) if row["kind"] == LESSONS else _measuring_weights(row)


def voiding(row: Json) -> Action:
    """Returns the form that makes a round void.

    Args:
        row: the round as `round list` has it.
    """

    def words(values: Values) -> list[str]:
        return ["round", "void", short_id(row), *option("--because", values["reason"]), "--yes"]

    question = Question(
        f"Make round {row['name']} void for good?",
        "It will have no result. The log keeps the reason. This cannot be undone.",
        "Yes, make it void",
    )
    text = "Ends the round without a result, whatever it waits for. Everybody reads the reason. "
    text += "The key that opens the contributions of a private round is deleted."
    field = Field("reason", "Reason, in one line", placeholder="the base was wrong")
    title = f"make round {row['name']} void"
    return Action(title, text, "Make void", words, (field,), lambda _: question, done=_voided)


def _measuring_weights(row: Json) -> Action:
    def words(values: Values) -> list[str]:
        files = [word for key, _ in EXAMPLES for word in option(f"--{key}", values[key])]
        validator = option("--validator", values["validator"])
        return ["round", "measure", "--round", short_id(row), *files, *validator,
                "--offline", "--send"]  # fmt: skip

    def question(values: Values) -> Question:
        files = [label.lower() for key, label in EXAMPLES if values[key] and key != "previous"]
        what = " and ".join([*files, "the signed figures"])
        consequence = f"What the round promises of {what} goes to {row['address']}, where anybody "
        consequence += "reads it. This cannot be taken back."
        return Question("Measure and send?", consequence, "Yes, send")

    text = "Measures each contribution by itself against the base, the size of the result, and the "
    text += "result, and signs the figures. The files are those that the terms promise; the "
    text += "details of the round say which."
    fields = (
        *(Field(key, label, placeholder="none", optional=True, is_path=True)
          for key, label in EXAMPLES),
        Field("validator", "Function of the terms", placeholder="none, or module:function",
              optional=True),
    )  # fmt: skip
    return Action(f"measure round {row['name']}", text, "Measure", words, fields, question,
                  done=_measured)  # fmt: skip


def _measuring_lessons(row: Json) -> Action:
    def words(values: Values) -> list[str]:
        caps = option("--max-usd", values["usd"]) + option("--max-tokens", values["tokens"])
        chosen = ["--round", short_id(row), *option("--model", values["model"] or "MODEL")]
        return ["round", "measure", values["tasks"] or "TASKS", *chosen, *caps, "--send", "--yes"]

    def question(values: Values) -> Question:
        consequence = f"The tasks are sent to {values['model']}: a model of this machine sends "
        consequence += "nothing away. One signed record of each lesson (model, number of tasks and "
        consequence += f"effect, no task) goes to {row['address']}, where anybody reads it."
        return Question("Measure and send?", consequence, "Yes, send")

    text = "Measures each lesson by itself against none, on tasks of yours, and signs the figures. "
    text += "What was measured is not measured again. Nobody measures lessons of their own."
    fields = (
        Field("tasks", "Tasks of yours", placeholder="tasks.jsonl", is_path=True),
        Field("model", "Model that answers", placeholder="http://HOST/v1#NAME or zen-nano"),
        Field("usd", "Cap in USD", placeholder="none", optional=True),
        Field("tokens", "Cap in tokens", placeholder="none", optional=True),
    )
    return Action(f"measure round {row['name']}", text, "Measure", words, fields, question,
                  done=_measured)  # fmt: skip


def _created_words(values: Values) -> list[str]:
    chosen = ["--base", values["base"] or "BASE", "--out", values["out"] or "FOLDER"]
    chosen += ["--min-contributors", values["fewest"]]
    return ["round", "create", values["name"] or "NAME", *chosen]


def _created(answer: Answer) -> str:
    del answer
    return "The round is open. Give its folder to the others; Esc goes back, s contributes."


def _voided(answer: Answer) -> str:
    return f"The round is void: {answer.value['reason']}"


def _measured(answer: Answer) -> str:
    result = answer.value
    if "records" in result:
        left = f", {result['left']} lessons are not measured" if result["left"] else ""
        return f"Sent: {result['records']} signed records{left}. Its maker takes them with a."
    refused = f", {len(result['refused'])} refused" if result["refused"] else ""
    reason = f" The result does not pass: {result['reason']}." if result["reason"] else ""
    return f"Sent: {result['measured']} contributions measured{refused}.{reason}"
