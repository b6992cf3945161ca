"""Training-Free GRPO with objects: `TrainingFreeGRPO(model, config).train(rows, reward)`.

    trainer = TrainingFreeGRPO("deepseek/v3.1-terminus", GRPOConfig(group_size=5))
    experiences = trainer.train(rows, reward)
    answer = trainer.infer("Solve: 2x + 3 = 11", experiences)

No weights change. It runs in this process and writes the same run folder as
`zoo-gym experience train`; naming a hosted model is the consent to send it the tasks.
"""

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.arguments import instance_of, number_of, path_of, text_of, whole_of
from zoo.gym.config.values import are_rows, listed
from zoo.gym.errors import GymWarning, InputError
from zoo.gym.experience import store
from zoo.gym.experience.calls.budget import Budget, Cap
from zoo.gym.experience.library.file import read_library, write_library
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.settings import LIVE, ExperienceConfig
from zoo.gym.humanize import counted
from zoo.gym.published.grpo import DEFAULTS, GRPOConfig

if TYPE_CHECKING:
    from zoo.gym.config.values import Data
    from zoo.gym.jobs.run import Run
    from zoo.gym.rewards.reward import Task

_USED = frozenset({"group_size", "max_epochs", "temperature_train", "temperature_eval"})
_ALSO = frozenset({"max_new_tokens", "seed"})
_NO_WEIGHTS = "no weights change"


@dataclass(frozen=True)
class ExperienceLibrary:
    """Lessons that a model learned.

    Attributes:
        library: the lessons with what is known of them.
        verdict: `proven`, `unproven` or `nothing kept`.
        metrics: the figures of the run.
        run: the run's id; empty for one that was loaded.
    """

    library: Library
    verdict: str = "unproven"
    metrics: Mapping[str, Any] = field(default_factory=dict[str, Any])
    run: str = ""

    def __len__(self) -> int:
        return len(self.library.items)

    def __str__(self) -> str:
        return self.library.text

    @property
    def lessons(self) -> list[str]:
        """The text of each lesson."""
        return [lesson.text for lesson in self.library.items]

    def save(self, path: str | Path) -> str:
        """Writes the library to a new file and returns its digest.

        Raises:
            StorageError: it cannot be written.
        """
        return write_library(path_of("path", path), self.library)

    @classmethod
    def load(cls, path: str | Path) -> "ExperienceLibrary":
        """Reads a library; what was measured counts if you or a trusted key vouch for it.

        Raises:
            NotAvailableError: there is no file.
            InputError: it is no library, or was changed.
        """
        stored = store.load_given(str(path_of("path", path).absolute()))
        library = stored.library
        for sentence in stored.notices:
            _warn(sentence)
        return cls(library, str(library.evidence.get("verdict", "unproven")))


class TrainingFreeGRPO:
    """Learns lessons in text from a model's own answers; no weights change (arXiv:2510.08191).

    Args:
        base_model: the model that answers: `deepseek/MODEL`, `openai:MODEL`, `http://HOST/v1#MODEL`,
            or one of this machine, `zen-nano` or a folder.
        config: `group_size`, `max_epochs`, `temperature_train` and `temperature_eval` are used;
            `max_new_tokens` and `seed` may be given. What changes weights is refused.
        teacher: the model that proposes lessons; by default the base model.
        budget: the cap on all calls of this trainer, of `train` and `infer` together, in USD; by
            default 5, none for servers of this machine.
        max_tokens: the same cap in tokens, which a hosted model without a price needs.
        name: what the library is called; by default after the file, or `python` for rows.

    Raises:
        InputError: an argument has the wrong type, or a setting has no effect here.
    """

    def __init__(
        self,
        base_model: str,
        config: GRPOConfig | None = None,
        *,
        teacher: str | None = None,
        budget: float | None = None,
        max_tokens: int | None = None,
        name: str | None = None,
    ) -> None:
        chosen = GRPOConfig() if config is None else config
        hint = "TrainingFreeGRPO(base_model, GRPOConfig(...))"
        self.config = instance_of("config", chosen, GRPOConfig, hint=hint)
        self.base_model = text_of("base_model", base_model)
        values: dict[str, object] = {"model": self.base_model, **_settings(self.config)}
        if teacher is not None:
            values["teacher"] = text_of("teacher", teacher)
        if budget is not None:
            values["max_usd"] = number_of("budget", budget)
        if max_tokens is not None:
            values["max_tokens"] = whole_of("max_tokens", max_tokens)
        if name is not None:
            store.check_name(text_of("name", name))
        self._name = name
        self._settings = ExperienceConfig.model_validate(values)
        self._learned: ExperienceLibrary | None = None
        self._budget = Budget(Cap())

    def train(self, dataset: "Data", reward_model: object = None) -> ExperienceLibrary:
        """Learns from tasks and returns when the run is done.

        Args:
            dataset: rows with a prompt, and an answer if the reward needs one; columns by name, as
                a slice of a Hugging Face dataset is; or files of rows.
            reward_model: a function of `(query, response)` or `(query, response, answer)`, or the
                name of a reward; None chooses one from the rows.

        Raises:
            InputError: the rows cannot be used.
            NotAvailableError: the server, its model or the key is missing.
            InterruptedRunError: a cap was reached, or a server is; answers are kept.
        """
        from zoo.gym.experience.models import check_servers
        from zoo.gym.experience.start import make_run, prepare

        config = self._settings
        if isinstance(reward_model, str):
            config, reward_model = config.model_copy(update={"reward": reward_model}), None
        elif reward_model is not None:
            config = config.model_copy(update={"reward": LIVE})
        tasks, notes, library_name = _tasks(dataset)
        name = library_name if self._name is None else self._name
        prepared = prepare(config.model_copy(update={"name": name}), tasks, notes, reward_model)
        need = prepared.estimate
        for note in prepared.notes:
            _warn(note)
        print(
            f"calls, low / expected / high: {need.calls}; tokens: {need.tokens}; "
            f"USD: {need.usd}; cap: {prepared.cap}",
            file=sys.stderr,
        )
        for doubt in check_servers(prepared.models):
            _warn(doubt)
        run = make_run(prepared)
        metrics = _work(run, prepared.config, reward_model, self._left(prepared.cap))
        library, _ = read_library(run.result / "library.json")
        self._learned = ExperienceLibrary(library, str(metrics["verdict"]), metrics, run.id)
        count = counted(len(self._learned), "lesson")
        print(f"run {run.id}: {self._learned.verdict}, {count}", file=sys.stderr)
        return self._learned

    def infer(self, query: str, experiences: "ExperienceLibrary | str | None" = None) -> str:
        """Returns the model's answer to a query, with lessons in its prompt.

        Args:
            query: the task.
            experiences: the lessons: what `train` returned, or the name or file of a library; None
                for those that this trainer has learned, if it has.

        Raises:
            InputError: an argument has the wrong type.
            NotAvailableError: the server, its model, the key or the library is missing.
            InterruptedRunError: the call does not fit under what is left of the cap.
        """
        from zoo.gym.experience.models import named_models
        from zoo.gym.experience.use import cap_of_answers, infer

        learned = self._learned if experiences is None else experiences
        if isinstance(learned, str):
            named = store.load_given(learned)
            library = named.library
            for sentence in named.notices:
                _warn(sentence)
        elif learned is None:
            library = Library()
        else:
            hint = "pass what train() returned, or the name of a library"
            library = instance_of("experiences", learned, ExperienceLibrary, hint=hint).library
        text = text_of("query", query)
        cap = cap_of_answers(self._settings, named_models(self._settings))
        return infer(self._settings, text, library, _warn, self._left(cap)).text

    def _left(self, cap: Cap) -> Budget:
        """Returns what is left for calls under a cap, by the prices of now."""
        self._budget.cap = cap
        return self._budget


def _settings(config: GRPOConfig) -> dict[str, object]:
    """Returns the settings that are used; refuses those that would have no effect.

    Raises:
        InputError: one has none.
    """
    values = config.model_dump()
    for key, value in values.items():
        changed = value != DEFAULTS.get(key)
        if key not in _USED | _ALSO and changed:
            raise InputError(
                f"{key}: has no effect on TrainingFreeGRPO: {_NO_WEIGHTS}",
                hint="GRPOTrainer trains weights",
                code="published.no_effect",
            )
    epochs = number_of("max_epochs", values.get("max_epochs", DEFAULTS["max_epochs"]))
    if epochs != int(epochs):
        raise InputError(
            f"max_epochs: expected a whole number, got {epochs:g}", code="published.bad_argument"
        )
    used = {key: value for key, value in values.items() if key in _USED | _ALSO}
    return {**used, "max_epochs": int(epochs)}


def _tasks(dataset: object) -> "tuple[list[Task], list[str], str]":
    """Returns the tasks in rows or files, notes about them, and the name of the library."""
    from zoo.gym.experience.tasks import read_tasks
    from zoo.gym.published.api import rows_text

    rows = listed(dataset)
    if isinstance(rows, list) and not rows:
        raise InputError(
            "dataset: expected rows, or files of rows, got none", code="published.no_dataset"
        )
    if not are_rows(rows):
        files = rows if isinstance(rows, list) else [rows]
        paths = [path_of("dataset", file) for file in files]
        return (*read_tasks(paths), store.plain_name(paths[0].stem))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dataset.jsonl"
        path.write_text(rows_text(tuple(rows)), encoding="utf-8")
        try:
            tasks, notes = read_tasks([path])
        except InputError as error:
            message = error.message.replace(f"{path}:", "dataset: row ")
            raise InputError(
                message.replace(str(path), "dataset"), hint=error.hint, code="published.bad_rows"
            ) from None
    tasks = [
        replace(task, source=task.source.replace(f"{path}:", "dataset: row ")) for task in tasks
    ]
    return tasks, [note.replace(str(path), "dataset") for note in notes], "python"


def _work(
    run: "Run", config: ExperienceConfig, reward: object, budget: Budget
) -> Mapping[str, Any]:
    """Does the work of a run in this process and returns its metrics."""
    from zoo.gym.experience.session import learn_in
    from zoo.gym.files.lock import locked
    from zoo.gym.jobs.worker import work
    from zoo.gym.published.api import ctrl_c_saves

    done: dict[str, Any] = {}

    def session(_: object) -> Mapping[str, object]:
        done.update(learn_in(run, config, reward, wait=False, budget=budget))
        return done

    try:
        with locked(run.lock_file, wait_s=0), ctrl_c_saves(run.control):
            run.events.emit("state", state="running")
            work(run, session)
    finally:
        run.identity_file.unlink(missing_ok=True)  # this process lives on, without the run
    metrics: Mapping[str, Any] = done["metrics"]
    return metrics


def _warn(message: str) -> None:
    import warnings

    warnings.warn(message, GymWarning, stacklevel=3)
