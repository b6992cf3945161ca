"""The work of a run that distils lessons: rows, training, a delta, and what it gained.

Each part is stored in the run folder, and a resumed run continues after the last complete one:
answers in the journal, training from its newest checkpoint.

A teacher on a server shows no probabilities of the whole vocabulary, so its answers themselves are
learned: of each task those with the best reward of their group, if that is above 0, without the
lessons. The gain is measured on held-out tasks by the statistics of the test: the model alone, with
the lessons in its prompt, with the adapter, and with the delta made of it, paired by task. There is
one planned comparison each, against the model alone.
"""

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, cast

from zoo.gym.config.delta import DeltaConfig
from zoo.gym.delta import create_delta
from zoo.gym.delta.create import Origin
from zoo.gym.errors import GuardError
from zoo.gym.experience.calls.budget import Budget, Cap
from zoo.gym.experience.calls.caller import Caller, Model
from zoo.gym.experience.calls.journal import Journal
from zoo.gym.experience.distilling.start import (
    KIND,
    LESSONS_FILE,
    check_caps,
)
from zoo.gym.experience.learning.answers import Answer, Answers, Pairs
from zoo.gym.experience.learning.learn import Tested, compared
from zoo.gym.experience.library.file import read_library
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.local import BATCH, LocalChat
from zoo.gym.experience.models import (
    SERVERS_KEY,
    cap_of,
    check_same_servers,
    named_models,
    open_models,
)
from zoo.gym.experience.rewards import check_same_reward, load_reward, reward_files
from zoo.gym.experience.session import CAPS, JOURNAL_FILE, caller_of, caps_in, hints_for
from zoo.gym.experience.settings import DistillationConfig
from zoo.gym.experience.tasks import TASKS_KEY, check_same_tasks, read_split
from zoo.gym.files import read_json_object, write_beside
from zoo.gym.jobs.control import wait_while_paused
from zoo.gym.jobs.kinds import KindOfRun
from zoo.gym.jobs.queue import turn_on_device
from zoo.gym.jobs.run import Run
from zoo.gym.rewards.reward import Reward, Task
from zoo.gym.train.measuring import stored_fingerprint
from zoo.gym.train.run_folder.settings import read_env, stored_settings
from zoo.models import resolve

TRAINED_FILE, REPORT_FILE = "trained.json", "report.json"
DELTA_FILE = "model.delta.safetensors"
WAYS = ("bare", "library", "adapter", "delta")


def work(run: Run) -> Mapping[str, object]:
    """Does the work of a run in a worker and returns the fields of its end event.

    Raises:
        InterruptedRunError: the run was stopped, a cap is reached, or a server is.
        GymError: training fails, or nothing can be scored.
    """
    env = read_env(run.env_file)
    config = DistillationConfig.model_validate(env[KIND])
    check_same_tasks(run.folder, env.get(TASKS_KEY))
    check_same_servers(named_models(config.calls), env.get(SERVERS_KEY))
    library, _ = read_library(run.folder / LESSONS_FILE)
    if config.teacher and not run.rows_file.is_file():
        with hints_for(run):
            _draw_rows(run, config, library)
    trained = cast("Mapping[str, Any]", read_json_object(run.folder / TRAINED_FILE) or _train(run))
    report = _measured(run, config, library, Path(str(trained["model"])))
    return {"model": trained["model"], "metrics": {**trained["metrics"], **report}}


def capped(run: Run, changes: Sequence[str]) -> dict[str, object]:
    """Returns what `env.json` of a run has after changes of its caps; nothing without changes.

    Raises:
        InputError: a value is wrong, or would have no effect.
    """
    if not (caps := caps_in(changes)):
        return {}
    changed = DistillationConfig.model_validate(read_env(run.env_file)[KIND] | caps)
    check_caps(changed)
    return {KIND: changed.model_dump(mode="json")}


RUN = KindOfRun(work, CAPS, capped, trains=True)
"""What a run of distillation does."""


def _draw_rows(run: Run, config: DistillationConfig, library: Library) -> None:
    split, calls = read_split(run.folder), config.calls
    models = named_models(calls)
    with closing(Journal(run.folder / JOURNAL_FILE)) as journal:
        caller = caller_of(run, journal, Budget(cap_of(calls, models), journal.spent))
        with (
            load_reward(calls, split) as reward,
            open_models(models, caller.notices.put) as (teacher, _),
        ):
            check_same_reward(run.env_file, reward_files(calls, reward))
            rows = rewarded_rows(config, split.train, library, Answers(caller, teacher, reward))
    write_beside(run.rows_file, rows, sync=True)


def rewarded_rows(
    config: DistillationConfig, tasks: Sequence[Task], library: Library, answers: Answers
) -> str:
    """Returns the rows of supervised training: a task's own turns and a teacher's best answers.

    Raises:
        GuardError: no answer has a reward above 0.
        GymError: see `Caller.ask`.
    """
    groups = answers.draw(
        ("rollout", 0, 0),
        dict(enumerate(tasks)),
        config.group_size,
        library,
        config.calls.sampling_train,
    )
    lines: list[str] = []
    for task, group in zip(tasks, groups, strict=True):
        scored = [answer for answer in group if not answer.score.failed]
        best = max((answer.score.value for answer in scored), default=0.0)
        texts = dict.fromkeys(answer.text for answer in scored if answer.score.value == best)
        turns = [{"role": turn.role, "content": turn.content} for turn in task.messages]
        for text in texts if best > 0 else ():
            row = {"messages": [*turns, {"role": "assistant", "content": text}]}
            lines.append(json.dumps(row) + "\n")
    if not lines:
        count = len(tasks) * config.group_size
        raise GuardError(
            f"expected an answer of {answers.model.name} with a reward above 0, got none of "
            f"{count}",
            code="experience.nothing_rewarded",
        )
    return "".join(lines)


def _train(run: Run) -> Mapping[str, Any]:
    from zoo.gym.jobs.crew.start import first_of
    from zoo.gym.jobs.tracking import tracked
    from zoo.gym.train.session import run_session

    config = stored_settings(run.config_file, run.env_file)
    leaving = partial(wait_while_paused, run.control, run.events)
    crew = first_of(run, own_process=True)
    turn = partial(turn_on_device, run)
    with tracked(run, config):
        done = dict(run_session(config, run, leaving, turn, crew, own_process=True))
    write_beside(run.folder / TRAINED_FILE, json.dumps(done) + "\n", sync=True)
    return done


def _measured(
    run: Run, config: DistillationConfig, library: Library, result: Path
) -> dict[str, object]:
    """Returns what the adapter and its delta gained; both are written with it."""
    from zoo.backends.machine.detect import detect, device_key

    split, calls = read_split(run.folder), config.calls
    tasks = [*split.gate, *split.test]
    delta = run.folder / DELTA_FILE
    gains: dict[str, Tested] = {}
    _write_delta(run, config, result, delta, None)
    with closing(Journal(run.folder / JOURNAL_FILE)) as journal:
        if tasks:
            caller = caller_of(run, journal, Budget(Cap(), journal.spent))
            with (
                load_reward(calls, split) as reward,
                turn_on_device(run, device_key(detect().name)),
            ):
                check_same_reward(run.env_file, reward_files(calls, reward))
                gains = compare(config, tasks, library, caller, reward, result, delta)
            _write_delta(run, config, result, delta, gains["delta"])
    named = read_env(run.env_file)["library"]
    report: dict[str, object] = {
        "library": named["name"],
        "library_digest": named["digest"],
        "verdict": gains["adapter"].verdict if gains else "unproven",
        "delta_verdict": gains["delta"].verdict if gains else "unproven",
        "measured": {way: as_json(tested) for way, tested in gains.items()},
        "delta": str(delta),
        "delta_bytes": delta.stat().st_size,
        "spent_usd": round(journal.spent.usd, 6),
    }
    write_beside(run.folder / REPORT_FILE, json.dumps(report, indent=1) + "\n", sync=True)
    return report


def compare(
    config: DistillationConfig,
    tasks: Sequence[Task],
    library: Library,
    caller: Caller,
    reward: Reward,
    adapter: Path,
    delta: Path,
) -> dict[str, Tested]:
    """Returns what the lessons, the adapter and the delta gain on tasks, by name.

    Raises:
        GuardError: no task has rewards in both ways.
        GymError: see `open_chat`.
    """
    from zoo.gym.chat import open_chat

    arms: dict[str, list[list[Answer]]] = {}
    gains: dict[str, Tested] = {}
    for look, way in enumerate(WAYS):
        with open_chat(
            config.model,
            system="",
            adapter=adapter if way == "adapter" else None,
            delta=delta if way == "delta" else None,
        ) as session:
            model = Model(f"{config.model} ({way})", LocalChat(session), None, BATCH)
            arms[way] = Answers(caller, model, reward).draw(
                ("test", 0, look),
                dict(enumerate(tasks)),
                config.test_draws,
                library if way == "library" else Library(),
                config.calls.sampling_eval,
            )
        if way == "bare":
            continue
        pairs = Pairs(tasks, arms["bare"], arms[way])
        if not pairs.rewards:
            reason = arms["bare"][0][0].score.reason
            raise GuardError(
                f"{way}: expected rewards for both, got none: {reason}",
                code="experience.no_rewards",
            )
        gains[way] = compared(pairs.means, 0, pairs.unscored)
    return gains


def as_json(tested: Tested) -> dict[str, object]:
    """Returns the result of a comparison, with no interval if there are too few tasks."""
    low, high = tested.interval
    fields: dict[str, object] = asdict(tested)
    del fields["interval"], fields["tokens"]
    return fields | {"interval": [low, high] if math.isfinite(low) else None}


def _write_delta(
    run: Run, config: DistillationConfig, result: Path, out: Path, gain: Tested | None
) -> None:
    """Writes the adapter as a delta of two bits, with its measured gain in the header."""
    settings = stored_settings(run.config_file, run.env_file)
    digest = read_env(run.env_file)["library"]["digest"]
    recipe: dict[str, Any] = settings.public_settings() | {"lessons": digest}
    if gain is not None:
        recipe["evidence"] = as_json(gain)
    create_delta(
        result,
        base=resolve(config.model, offline=True).folder,
        out=out,
        config=DeltaConfig(bits=2),
        origin=Origin(recipe, settings.seed, stored_fingerprint(run.folder)),
        force=True,
    )
