"""The work of a run that distils lessons: rows, training, a delta, and what it gained.

Each part is kept in the run folder, and a resumed run continues behind the last one that is there:
answers in the journal, training from its newest checkpoint.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, cast

from zoo.gym.config.delta import DeltaConfig
from zoo.gym.delta import create_delta
from zoo.gym.delta.create import Origin
from zoo.gym.experience.calls.budget import Budget, Cap
from zoo.gym.experience.calls.caller import Caller
from zoo.gym.experience.calls.journal import Journal
from zoo.gym.experience.distilling.comparison import as_json, compare
from zoo.gym.experience.distilling.rewarded import rewarded_rows
from zoo.gym.experience.distilling.settings import DistillationConfig
from zoo.gym.experience.distilling.start import KIND, LESSONS_FILE, check_caps, settings_of
from zoo.gym.experience.learning.learn import Tested
from zoo.gym.experience.learning.scoring import check_same_reward
from zoo.gym.experience.library.file import read_library
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.library.report import JOURNAL_FILE
from zoo.gym.experience.models import (
    SERVERS_KEY,
    cap_of,
    check_same_servers,
    named_models,
    open_models,
)
from zoo.gym.experience.session import CAPS, caps_in, hints_for, load_reward, reward_files
from zoo.gym.experience.tasks import TASKS_KEY, check_same_tasks, read_split
from zoo.gym.files import read_json_object, write_beside
from zoo.gym.jobs.control import wait_while_paused
from zoo.gym.jobs.kinds import KindOfRun
from zoo.gym.jobs.queue import turn_on_device
from zoo.gym.jobs.run import Run
from zoo.gym.train.measuring import stored_fingerprint
from zoo.gym.train.run_folder.settings import read_env, stored_settings
from zoo.models import resolve

TRAINED_FILE, REPORT_FILE = "trained.json", "report.json"
DELTA_FILE = "model.delta.safetensors"


def work(run: Run) -> Mapping[str, object]:
    """Does the work of a run in a worker and returns the fields of its end event.

    Raises:
        InterruptedRunError: the run was stopped, a cap is reached, or a server is.
        GymError: training fails, or nothing can be scored.
    """
    env = read_env(run.env_file)
    config = settings_of(env)
    check_same_tasks(run.folder, env.get(TASKS_KEY))
    check_same_servers(named_models(config.calls), env.get(SERVERS_KEY))
    library, _ = read_library(run.folder / LESSONS_FILE)
    if config.teacher and not run.rows_file.is_file():
        with hints_for(run):
            _draw_rows(run, config, library)
    trained = cast("Mapping[str, Any]", read_json_object(run.folder / TRAINED_FILE) or _train(run))
    found = _measured(run, config, library, Path(str(trained["model"])))
    return {"model": trained["model"], "metrics": {**trained["metrics"], **found}}


def capped(run: Run, changes: Sequence[str]) -> dict[str, object]:
    """Returns what `env.json` of a run has after changes of its caps; nothing without changes.

    Raises:
        InputError: a value is wrong, or would have no effect.
    """
    config, caps = settings_of(read_env(run.env_file)), caps_in(changes)
    if not caps:
        return {}
    changed = DistillationConfig.model_validate(config.model_dump() | caps)
    check_caps(changed)
    return {KIND: changed.model_dump(mode="json")}


RUN = KindOfRun(work, CAPS, capped, trains=True)
"""What a run of distillation does."""


def _caller(run: Run, journal: Journal, cap: Cap) -> Caller:
    leaving = partial(wait_while_paused, run.control, run.events)
    budget = Budget(cap, journal.spent)
    return Caller(journal, budget, leaving=leaving, tell=partial(_warn, run))


def _warn(run: Run, message: str) -> None:
    run.events.emit("warn", message=message)


def _draw_rows(run: Run, config: DistillationConfig, library: Library) -> None:
    """Writes the rows of a teacher on a server."""
    split, calls = read_split(run.folder), config.calls
    models = named_models(calls)
    with closing(Journal(run.folder / JOURNAL_FILE)) as journal:
        caller = _caller(run, journal, cap_of(calls, models))
        with (
            load_reward(calls, split) as reward,
            open_models(models, caller.notices.put) as (teacher, _),
        ):
            check_same_reward(run.env_file, reward_files(calls, reward))
            rows = rewarded_rows(config, split.train, library, caller, teacher, reward)
    write_beside(run.rows_file, rows, sync=True)


def _train(run: Run) -> Mapping[str, Any]:
    """Trains, and notes that it is done, so that a resumed run measures alone."""
    from zoo.gym.jobs.crew.start import first_of
    from zoo.gym.train.session import run_session

    config = stored_settings(run.config_file, run.env_file)
    leaving = partial(wait_while_paused, run.control, run.events)
    crew = first_of(run, own_process=True)
    turn = partial(turn_on_device, run)
    done = run_session(config, run, leaving, turn, crew, own_process=True)
    write_beside(run.folder / TRAINED_FILE, json.dumps(dict(done)) + "\n", sync=True)
    return dict(done)


def _measured(
    run: Run, config: DistillationConfig, library: Library, result: Path
) -> dict[str, object]:
    """Returns what the adapter and its delta gained; both are written with it."""
    from zoo.backends.machine.detect import detect, device_key

    split = read_split(run.folder)
    tasks = [*split.gate, *split.test]
    delta = run.folder / DELTA_FILE
    found: dict[str, Tested] = {}
    _write_delta(run, config, result, delta, {})
    with closing(Journal(run.folder / JOURNAL_FILE)) as journal:
        if tasks:
            caller = _caller(run, journal, Cap())
            with (
                load_reward(config.calls, split) as reward,
                turn_on_device(run, device_key(detect().name)),
            ):
                check_same_reward(run.env_file, reward_files(config.calls, reward))
                found = compare(config, tasks, library, caller, reward, result, delta)
            _write_delta(run, config, result, delta, found)
    files = {"delta": str(delta), "delta_bytes": delta.stat().st_size}
    report = _report(run, found) | files | {"spent_usd": round(journal.spent.usd, 6)}
    write_beside(run.folder / REPORT_FILE, json.dumps(report, indent=1) + "\n", sync=True)
    return report


def _report(run: Run, found: Mapping[str, Tested]) -> dict[str, object]:
    named = read_env(run.env_file)["library"]
    return {
        "library": named["name"],
        "library_digest": named["digest"],
        "verdict": found["adapter"].verdict if found else "unproven",
        "delta_verdict": found["delta"].verdict if found else "unproven",
        "measured": {way: as_json(tested) for way, tested in found.items()},
    }


def _write_delta(
    run: Run, config: DistillationConfig, result: Path, out: Path, found: Mapping[str, Tested]
) -> None:
    """Writes the adapter as a delta of two bits; its header has what was measured of it."""
    settings = stored_settings(run.config_file, run.env_file)
    named = read_env(run.env_file)["library"]
    recipe: dict[str, Any] = settings.public_settings() | {"lessons": named["digest"]}
    if found:
        recipe["evidence"] = as_json(found["delta"])
    create_delta(
        result,
        base=resolve(config.model, offline=True).folder,
        out=out,
        config=DeltaConfig(bits=2),
        origin=Origin(recipe, settings.seed, stored_fingerprint(run.folder)),
        force=True,
    )
