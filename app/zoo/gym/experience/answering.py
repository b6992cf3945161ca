"""Answers of a command that measures: under a cap, with a journal until the command is done.

A command that was killed, or reached its cap, is repeated: the same model, settings, lessons and
tasks find the same journal, whose answers are not asked for again. At the end it is removed.
"""

import hashlib
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from zoo.gym.errors import InputError, InterruptedRunError
from zoo.gym.experience.calls.budget import Budget, CapReachedError
from zoo.gym.experience.calls.caller import Caller
from zoo.gym.experience.calls.journal import Journal
from zoo.gym.experience.learning.answers import Answers
from zoo.gym.experience.learning.split import Split
from zoo.gym.experience.models import cap_of, named_models, open_models
from zoo.gym.experience.session import CAPS, load_reward, reward_files
from zoo.gym.experience.settings import ExperienceConfig
from zoo.gym.experience.tasks import task_line
from zoo.gym.files import remove_file, storage_errors
from zoo.gym.files.lock import locked
from zoo.gym.paths import ensure_folder, folders
from zoo.gym.rewards.reward import Task

_AGAIN = "repeat the command: all answers are kept"


@contextmanager
def answering(
    config: ExperienceConfig,
    tasks: Sequence[Task],
    what: Mapping[str, object],
    tell: Callable[[str], None],
) -> Generator[Answers]:
    """Yields what draws and scores answers, for the duration of a command.

    Args:
        config: the model, the reward, the cap.
        tasks: all tasks of the command.
        what: the command and its lessons: with the settings and tasks it names the journal.
        tell: gets notices.

    Raises:
        InputError: the same command is running, or the reward is none.
        InterruptedRunError: the cap is reached, or a server is; answers are kept.
        GymError: see `Caller.ask`.
    """
    models = named_models(config)
    with load_reward(config, Split(tuple(tasks))) as scorer:
        path = _journal(config, tasks, what, reward_files(config, scorer))
        lock = path.with_suffix(".lock")
        with locked(lock) as held:
            if not held:
                raise InputError("expected one such command at a time, got a second one")
            journal = Journal(path)
            if journal.spent.calls:
                tell(f"continues after {journal.spent.calls:,} calls of an earlier time")
            try:
                caller = Caller(journal, Budget(cap_of(config, models), journal.spent), tell=tell)
                with open_models(models, caller.notices.put) as (model, _):
                    yield Answers(caller, model, scorer, config.system, config.top_k, tell=tell)
            except CapReachedError as error:
                hint = f"repeat the command with a higher {error.option}: answers are kept"
                raise InterruptedRunError(error.message, hint=hint) from None
            except KeyboardInterrupt:
                raise KeyboardInterrupt(_AGAIN) from None
            except InterruptedRunError as error:
                raise InterruptedRunError(error.message, hint=_AGAIN) from None
            finally:
                journal.close()
            with storage_errors(path):
                remove_file(path)
    with suppress(OSError):  # Windows keeps a file that another command has open
        lock.unlink()


def _journal(
    config: ExperienceConfig,
    tasks: Sequence[Task],
    what: Mapping[str, object],
    files: Mapping[str, str],
) -> Path:
    """Returns the place of the journal of a command.

    Caps change nothing that was answered; other files of the reward give other rewards.
    """
    settings = {key: one for key, one in config.model_dump(mode="json").items() if key not in CAPS}
    lines = [task_line("", task) for task in tasks]
    text = json.dumps([dict(what), settings, sorted(files.values()), lines], sort_keys=True)
    folder = ensure_folder(folders().data / "measuring")
    return folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.jsonl"
