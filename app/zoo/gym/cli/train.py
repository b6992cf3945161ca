"""`zoo-gym train`: settings, model and data are checked, then a detached worker trains."""

import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from zoo.gym.cli.ending import finish, started
from zoo.gym.cli.flags import with_setting_flags
from zoo.gym.cli.options import Json, Switch, Yes
from zoo.gym.cli.output import Output
from zoo.gym.cli.progress import Progress
from zoo.gym.cli.sources import resolve_models
from zoo.gym.config import Ignored, Loaded, dump_config, load_config
from zoo.gym.config.conflicts import require_processes
from zoo.gym.config.items import existing, settings_file, sort_items
from zoo.gym.errors import InputError, InterruptedRunError, NotAvailableError
from zoo.gym.jobs import (
    Event,
    Run,
    Status,
    check_unclaimed,
    create_run,
    follow,
    launch,
    tail_events,
)
from zoo.gym.paths import given_path
from zoo.gym.train.planning.faults import check_engine, check_packages
from zoo.gym.train.planning.fixed_base import check_fixed_base
from zoo.gym.train.planning.names import check_names
from zoo.gym.train.reward_first import PHASES, doubt_of_scores, reward_model_first, scored_by
from zoo.gym.train.run_folder.pinned import (
    check_dataset_dir,
    check_other_files,
    dataset_files,
    idle_date,
    layout_of,
    left_out,
    pinned,
)
from zoo.gym.tuned.runs import result_of
from zoo.models import Resolved

Config = Annotated[
    tuple[str, ...],
    Parameter(name="--config", metavar="FILE", negative=(), show_default=False),
]

PrintConfig = Annotated[Switch, Parameter(name=["--print-config", "--dry-run"])]


@with_setting_flags
def train(
    *items: str,
    config: Config = (),
    yes: Yes = False,
    detach: Switch = False,
    print_config: PrintConfig = False,
    as_json: Json = False,
    **settings: object,
) -> int:
    """Trains a model on files of examples.

    Args:
        items: a file or folder of examples, a .yaml file of settings or a recipe, or KEY=VALUE
        config: a YAML file of settings, the same as an item
        yes: download without asking
        detach: return as soon as the run has started
        print_config: print the settings, the origin of each, what would be chosen and the memory,
            or all reasons why a run would be refused, and do nothing else
        as_json: print one JSON object as stdout's last line
        **settings: every key of a settings file
    """
    out = Output(as_json)
    loaded = load(items, config, settings)
    if not print_config:
        return train_as(loaded, out, yes=yes, detach=detach)
    loaded = _checked(loaded, out, quiet=True)
    first = reward_model_first(loaded.config)
    if first is not None:
        out.say(PHASES)
    if first is not None:
        out.say("the settings of the reward model follow; those of 2. are known after it")
        origins = loaded.origins | {"stage": "reward: auto"}
        loaded = replace(loaded, config=first, origins=origins)
    check_packages(loaded.config)
    from zoo.gym.cli.print_config import print_config as show

    return show(loaded, out)


def train_as(
    loaded: Loaded,
    out: Output,
    *,
    yes: bool,
    detach: bool,
    env: Mapping[str, object] | None = None,
    end: Callable[[Run, Status, Output], int] = finish,
) -> int:
    """Trains as settings say, and returns the exit code.

    Args:
        loaded: the settings.
        out: the streams of the command.
        yes: download without asking.
        detach: return as soon as the run has started.
        env: more for `env.json` of the run.
        end: reports how the run ended.

    Raises:
        GymError: the run could not start.
    """
    loaded = _checked(loaded, out)
    first, model = reward_model_first(loaded.config), None
    if first is not None:
        out.say(PHASES)
        if detach:
            raise InputError(
                "reward: auto on pairs takes two runs: expected no --detach",
                hint="train the reward model with --stage rm, then give its result: reward=FOLDER",
                code="cli.two_runs",
            )
        model = _run_of(replace(loaded, config=first, ignored=()), out, yes=yes)
        status = _followed(model, out)
        if status.state != "done":
            rest = f"this command again with reward={model.result}"
            out.say(f"this was the first of two runs; when it is done, train with {rest}")
            return finish(model, status, out)
        loaded = replace(loaded, config=scored_by(loaded.config, result_of(model)))
    run = _run_of(loaded, out, yes=yes, env=env)
    code = _start(run, out, end, detach=detach)
    if model is not None and (doubt := doubt_of_scores(_events(model), _events(run))):
        out.say(f"warning: {doubt}")
    return code


def prepared_run(
    loaded: Loaded, out: Output, *, yes: bool, env: Mapping[str, object] | None = None
) -> Run:
    """Makes the run that settings describe, after all checks; it is not started.

    Args:
        loaded: the settings.
        out: the streams of the command.
        yes: download without asking.
        env: more for `env.json` of the run.

    Raises:
        GymError: it could not start.
    """
    return _run_of(_checked(loaded, out, quiet=True), out, yes=yes, env=env)


def _checked(loaded: Loaded, out: Output, *, quiet: bool = False) -> Loaded:
    """Returns settings after a look at their data, with those that are left out.

    Raises:
        GymError: the data cannot be used.
    """
    from zoo.gym.config.stages import load_method
    from zoo.gym.data.reading.dataset import check_dataset

    loaded = replace(loaded, ignored=(*loaded.ignored, *left_out(loaded.config)))
    data = dataset_files(loaded.config)
    files = [existing(str(path)) for path in data.used]
    if not quiet:
        for ignored in loaded.ignored:
            out.say(_idle_line(ignored))
        out.say(f"reading {', '.join(map(str, files))}")
        if data.validation:
            out.say(f"held out: {', '.join(map(str, data.validation))}")
    for file in (file for file in files if file.suffix == ".py"):
        out.say(f"{file} is learned as text; as a reward it is reward={file}:FUNCTION")
    check_dataset(files, load_method(loaded.config.stage).reads, layout_of(loaded.config))
    check_other_files(loaded.config)
    return loaded


def _events(run: Run) -> list[Event]:
    return tail_events(run.events.path)[0]


def _run_of(
    loaded: Loaded, out: Output, *, yes: bool, env: Mapping[str, object] | None = None
) -> Run:
    """Makes the run that the settings describe, after all checks that need no data.

    Raises:
        GymError: it could not start.
    """
    from zoo.gym.config.stages import load_method
    from zoo.gym.train.rows import check_rows

    check_engine(loaded.config)
    names = [loaded.config.model_name_or_path, *loaded.config.other_models.values()]
    models = resolve_models(names, yes=yes, offline=loaded.config.offline)
    for notice in filter(None, (model.notice for model in models)):
        out.say(notice)
    model = models[0]
    load_method(loaded.config.stage).check_models(loaded.config, model.folder)
    check_rows(loaded.config, model.folder, dataset_files(loaded.config).used)
    dates = idle_date(loaded.config, loaded.origins.get("date", "default"), model.folder)
    for ignored in dates:
        out.say(_idle_line(ignored))
    loaded = replace(loaded, ignored=(*loaded.ignored, *dates))
    if loaded.config.output_dir is not None:
        from zoo.gym.train.result.output import check_chosen_output

        check_unclaimed(Path(loaded.config.output_dir))
        check_chosen_output(loaded.config)
    fixed = pinned(loaded.config, model)
    check_names(fixed, model.folder)
    check_fixed_base(fixed, model.folder)
    settings = {"settings": fixed.model_dump(mode="json")}
    run = create_run(dump_config(fixed), _environment(loaded, model) | settings | dict(env or {}))
    out.say(f"run {run.id}: {model.label} in {run.folder}")
    return run


def load(items: tuple[str, ...], config: tuple[str, ...], settings: dict[str, object]) -> Loaded:
    """Returns the settings of items, files and flags.

    Raises:
        InputError: a setting is wrong.
    """
    sorted_items = sort_items(items)
    files = [*map(settings_file, config), *sorted_items.configs]
    flags = {key: value for key, value in settings.items() if value is not None}
    if sorted_items.data:
        named = flags.get("dataset", [])
        assert isinstance(named, list)
        flags["dataset"] = [*sorted_items.data, *named]
    loaded = load_config(files, sorted_items.overrides, flags)
    loaded = _with_result(_with_processes(loaded))
    require_processes(loaded.config)
    if loaded.config.dataset_dir is None:
        return loaded
    # a shell completes an item from the working folder, whatever dataset_dir says
    from_items = tuple(str(Path(path).absolute()) for path in sorted_items.data)
    dataset = (*from_items, *loaded.config.dataset[len(from_items) :])
    config_here = loaded.config.model_copy(update={"dataset": dataset})
    return _without_idle_folder(replace(loaded, config=config_here))


def _with_result(loaded: Loaded) -> Loaded:
    """Takes the result of a run whose name is given as the adapter to train further."""
    adapter = loaded.config.adapter_name_or_path
    if adapter is None or given_path(adapter).exists():
        return loaded
    from zoo.gym.tuned.source import resolve_tuned

    try:
        tuned = resolve_tuned(adapter)
    except NotAvailableError:
        return loaded  # refused where adapters are read, as any other missing folder
    config = loaded.config.model_copy(update={"adapter_name_or_path": str(tuned.path)})
    return replace(loaded, config=config)


def _with_processes(loaded: Loaded) -> Loaded:
    """Takes the number of processes from the launcher that started them, if there is one.

    Raises:
        InputError: another number is given.
    """
    from zoo.backends.launched import launched_place

    rank = launched_place()
    if rank is None:
        return loaded
    count, origin = loaded.config.num_processes, loaded.origins["num_processes"]
    if origin != "default" and count != rank.size:
        raise InputError(
            f"num_processes: expected {rank.size}, the processes of the launcher, got {count}",
            code="cli.other_processes",
        )
    config = loaded.config.model_copy(update={"num_processes": rank.size})
    return replace(loaded, config=config, origins={**loaded.origins, "num_processes": "launcher"})


def _idle_line(ignored: Ignored) -> str:
    return f"without effect: {ignored.key} ({ignored.origin}): {ignored.reason}"


def _without_idle_folder(loaded: Loaded) -> Loaded:
    """Refuses a `dataset_dir` that no file is read from; one in a settings file is reported."""
    try:
        check_dataset_dir(loaded.config)
    except InputError as error:
        origin = loaded.origins["dataset_dir"]
        if origin in {"flag", "key=value"}:
            raise
        reason = error.message.removeprefix("dataset_dir: has no effect: ")
        ignored = (*loaded.ignored, Ignored("dataset_dir", origin, reason))
        return replace(loaded, ignored=ignored)
    return loaded


def _environment(loaded: Loaded, model: Resolved) -> dict[str, object]:
    """Returns the environment of a run, for `env.json`."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "model": {"id": model.id, "revision": model.revision, "folder": str(model.folder)},
        "origins": loaded.origins,
        "without_effect": [asdict(ignored) for ignored in loaded.ignored],
    }


def _start(
    run: Run, out: Output, end: Callable[[Run, Status, Output], int], *, detach: bool
) -> int:
    if not detach:
        return end(run, _followed(run, out), out)
    _launch(run)
    return started(run, out)


def _followed(run: Run, out: Output) -> Status:
    """Starts a run and returns how it ended."""
    _launch(run)
    progress = Progress(out)
    return follow(run, progress, on_stop=progress.stopping)


def _launch(run: Run) -> None:
    try:
        launch(run)
    except KeyboardInterrupt:
        run.control.request("stop")
        raise InterruptedRunError(
            f"run '{run.id}' was stopped before its first step",
            hint=f"resume it: zoo-gym runs resume {run.id}",
            code="cli.stopped_before_start",
        ) from None
