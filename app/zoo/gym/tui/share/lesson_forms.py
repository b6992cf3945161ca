"""The forms that write lessons to a file, read them from one, and turn them to weights."""

from zoo.gym.humanize import counted
from zoo.gym.tui.machine import available_models
from zoo.gym.tui.share.action import Action, Field, Question, Values, option
from zoo.gym.tui.share.asking import Answer

FORMS = (
    ("Markdown, a list to read", "markdown"),
    ("a skill for agents (SKILL.md)", "skill"),
    ("experiences of youtu-agent", "youtu"),
    ("a playbook of ACE", "ace"),
    ("a library of zoo-gym, signed", "json"),
)


def exporting(library: str) -> Action:
    """Returns the form that writes a library to a file.

    Args:
        library: its name, or NAME@VERSION.
    """

    def words(values: Values) -> list[str]:
        chosen = ["--form", values["form"], *option("--out", values["out"])]
        return ["experience", "export", library, *chosen]

    text = (
        "Writes the lessons to a new file. A library of zoo-gym keeps what was measured of them; "
    )
    text += "it has a signature beside it, and others need both files."
    fields = (
        Field("form", "Form", choices=FORMS),
        Field("out", "File", placeholder="in this folder, named after it", optional=True,
              is_path=True),
    )  # fmt: skip
    return Action(f"export {library}", text, "Export", words, fields, done=_exported)


def importing(path: str = "") -> Action:
    """Returns the form that reads lessons from a file, which may be known already."""

    def words(values: Values) -> list[str]:
        released = [word for id_ in values["release"].split() for word in option("--release", id_)]
        chosen = [*option("--name", values["name"]), *released]
        return ["experience", "import", values["file"] or "FILE", *chosen]

    text = "Reads lessons as a new version of a library: a library of zoo-gym, a list in Markdown, "
    text += "SKILL.md, a playbook of ACE, or experiences of youtu-agent. What was measured of them "
    text += "counts only in a library that you or a key that you trust signed. Lessons with "
    text += "addresses, code or orders are held back until you have read them."
    fields = (
        Field("file", "File", path, placeholder="lessons.md", is_path=True),
        Field("name", "Name of the library", placeholder="as in the file", optional=True),
        Field("release", "Ids of lessons held back that you take", placeholder="none",
              optional=True),
    )  # fmt: skip
    return Action("import lessons", text, "Import", words, fields, done=_imported)


def distilling(library: str) -> Action:
    """Returns the form that trains a model to answer as with the lessons of a library.

    Args:
        library: its name, or NAME@VERSION.
    """

    def words(values: Values) -> list[str]:
        teacher = option("--teacher", values["teacher"])
        caps = option("--max-usd", values["usd"]) + option("--max-tokens", values["tokens"])
        chosen = ["--model", values["model"], *teacher, *caps]
        local = [] if teacher else ["--offline"]
        tasks = values["tasks"] or "TASKS"
        return ["experience", "distill", library, tasks, *chosen, *local, "--yes", "--detach"]

    def question(values: Values) -> Question:
        teacher = values["teacher"]
        leaves = f"Tasks, lessons and answers are sent to {teacher}: a model of this machine sends "
        leaves += "nothing away."
        consequence = leaves if teacher else "Nothing leaves this machine."
        consequence += " The run needs no window and can be stopped."
        return Question(f"Start to distill {library}?", consequence, "Yes, start")

    text = "Trains a model to answer as with the lessons in its prompt, without them. What that "
    text += "gained is measured on tasks that were kept aside."
    models = [(name, name) for name, _ in available_models()]
    fields = (
        Field("tasks", "Tasks like those that the lessons are for", placeholder="tasks.jsonl",
              is_path=True),
        Field("model", "Model that is trained", choices=models),
        Field("teacher", "Teacher on a server", placeholder="none: the model itself",
              optional=True),
        Field("usd", "Cap of the teacher in USD", placeholder="none", optional=True),
        Field("tokens", "Cap of the teacher in tokens", placeholder="none", optional=True),
    )  # fmt: skip
    return Action(f"distill {library}", text, "Start", words, fields, question, done=_started)


def _exported(answer: Answer) -> str:
    lessons, file = counted(answer.value["lessons"], "lesson"), answer.value["file"]
    return f"Written: {lessons} in {file}"


def _imported(answer: Answer) -> str:
    stored = answer.value
    name = f"{stored['name']}@{stored['version']}"
    left = [
        f"{len(stored[key])} {words}"
        for key, words in (
            ("quarantine", "held back until you have read them"),
            ("crowded", "left out: too many of one author"),
            ("left_out", "could not be read"),
        )
        if stored.get(key)
    ]
    lessons = counted(stored["lessons"], "lesson")
    return "\n".join([f"Imported: {name}, {lessons}. Esc goes back, m measures it.", *left])


def _started(answer: Answer) -> str:
    return f"Run {answer.value['run']} has started."
