"""Training from Python: creates the same run folder as the commands, in this process."""

import json
import re
import signal
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from zoo.gym.arguments import StrPath, instance_of, model_folder, path_of, text_of
from zoo.gym.config import Ignored, TrainConfig, dump_config
from zoo.gym.config.conflicts import require_processes
from zoo.gym.config.values import Rows
from zoo.gym.errors import GymWarning, InputError
from zoo.gym.files import write_beside
from zoo.gym.humanize import today
from zoo.gym.jobs.run import RunResult

if TYPE_CHECKING:
    from zoo.gym.delta import QualityInput
    from zoo.gym.jobs.control import Control
    from zoo.gym.jobs.run import Run


@contextmanager
def ctrl_c_saves(control: "Control") -> Generator[None]:
    """Makes Ctrl-C save and stop the run, as it does in `zoo-gym train`; main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(signum: int, frame: FrameType | None) -> None:
        control.leave()

    handler = signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def rows_text(rows: Rows) -> str:
    """Returns rows given in Python as JSON Lines.

    Raises:
        InputError: a row contains a value that JSON cannot represent.
    """
    lines: list[str] = []
    for number, row in enumerate(rows, 1):
        try:
            line = json.dumps(dict(row), ensure_ascii=False, allow_nan=False) + "\n"
            line.encode("utf-8")
            lines.append(line)
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(
                f"dataset: row {number}: expected text, numbers, lists and dicts, got another "
                f"value: {error}",
                code="published.bad_rows",
            ) from None
    return "".join(lines)


def run_training(
    config: TrainConfig, *, on_event: Callable[[dict[str, Any]], object] | None = None
) -> RunResult:
    """Trains in this process and returns when the run is done.

    The base model must be on this machine; nothing is downloaded. The run appears in
    `zoo-gym runs list` and can be paused and stopped from there. Other runs wait until it ends.

    `dataset` is a file, a list of files, or rows: a list or a generator of dicts such as
    `{"prompt": ..., "completion": ...}`. Rows are stored in the run folder, readable only by its
    owner, so that `zoo-gym runs resume` finds them. Torch's threads and random state are restored
    at the end.

    Args:
        config: the settings.
        on_event: called with each event of the run, as docs/reference/runs.md describes them; an
            error in it ends the run. `show_progress` shows them in a terminal or a notebook.

    Raises:
        InputError: `config` is not a `TrainConfig`, or the data cannot be used.
        NotAvailableError: another run has the device; a call that waits silently looks hung.
        GymError: the run cannot start, learns nothing, or was stopped: Ctrl-C saves first.
    """
    return train_here(config, on_event=on_event)


def train_here(
    config: TrainConfig,
    ignored: Sequence[Ignored] = (),
    held_out: int = 0,
    on_event: Callable[[dict[str, Any]], object] | None = None,
) -> RunResult:
    """Trains as `run_training` does.

    Args:
        config: the settings.
        ignored: settings without effect that the caller gave; the run's first event lists them.
        held_out: of rows given in Python, how many at the end are held out; 0: as `val_size` says.
        on_event: see `run_training`.

    Raises:
        GymError: see `run_training`.
    """
    import warnings

    from zoo.gym.jobs import Run, tail_events
    from zoo.gym.train.reward_first import doubt_of_scores, reward_model_first, scored_by

    instance_of(
        "config", config, TrainConfig, hint="TrainConfig(model_name_or_path=..., dataset=...)"
    )
    first = reward_model_first(config)
    if first is None:
        return _train(config, ignored, held_out, on_event)
    scorer = _train(first, (), held_out, on_event)
    result = _train(scored_by(config, scorer.model), ignored, held_out, on_event)
    logs = (tail_events(Run(each.folder).events.path)[0] for each in (scorer, result))
    if doubt := doubt_of_scores(*logs):
        warnings.warn(doubt, GymWarning, stacklevel=3)
    return result


def _train(
    config: TrainConfig,
    ignored: Sequence[Ignored],
    held_out: int,
    on_event: Callable[[dict[str, Any]], object] | None,
) -> RunResult:
    from zoo.backends.machine.threads import callers_state_kept
    from zoo.gym.files.lock import locked
    from zoo.gym.jobs.control import wait_while_paused
    from zoo.gym.jobs.crew.start import first_of
    from zoo.gym.jobs.queue import DeviceInUseError, turn_on_device
    from zoo.gym.jobs.remove import remove
    from zoo.gym.jobs.run import create_run
    from zoo.gym.jobs.tracking import tracked
    from zoo.gym.jobs.worker import work
    from zoo.gym.offline import offline
    from zoo.gym.train.rows import check_rows
    from zoo.gym.train.run_folder.pinned import idle_date, left_out, pinned
    from zoo.gym.train.session import run_session
    from zoo.models import resolve

    rows = _checked_rows(config)
    base = resolve(config.model_name_or_path, offline=True)
    ignored = [*ignored, *left_out(config), *idle_date(config, "Python", base.folder)]
    config = pinned(config, base)
    _check_before(config, base.folder)
    _with_files(config, rows, partial(check_rows, config, base.folder))
    env: dict[str, object] = {"settings": config.model_dump(mode="json")}
    if idle := _without_effect(config, ignored):
        env["without_effect"] = [asdict(setting) for setting in idle]
    run = create_run(dump_config(config), env)
    run.events.on_event = on_event
    if rows:
        config = _with_stored_rows(run, config, rows)
    if held_out:
        _hold_out_last(run, config, held_out)
    leaving = partial(wait_while_paused, run.control, run.events)
    turn = partial(turn_on_device, run, wait=False)
    done: dict[str, object] = {}

    def session(_: object) -> Mapping[str, object]:
        with tracked(run, config):
            done.update(run_session(config, run, leaving, turn, first_of(run)))
        return done

    try:
        with (
            locked(run.lock_file, wait_s=0),
            ctrl_c_saves(run.control),
            callers_state_kept(),
            offline(),
        ):
            run.events.emit("state", state="running")
            work(run, session)
    except DeviceInUseError:
        run.identity_file.unlink(missing_ok=True)  # `remove` refuses a run with a live process
        remove(run)  # it has nothing, and would be the last run
        raise
    finally:
        run.identity_file.unlink(missing_ok=True)  # this process lives on, without the run
    metrics = done["metrics"]
    assert isinstance(metrics, Mapping)
    return RunResult(run.id, run.folder, Path(str(done["model"])), metrics)


def _without_effect(config: TrainConfig, ignored: Sequence[Ignored]) -> list[Ignored]:
    """Returns the settings without effect: those that the caller found, and those in `config`."""
    keys = {setting.key for setting in ignored}
    more = (Ignored(key, "Python", why) for key, why in config.idle_settings())
    return [*ignored, *(setting for setting in more if setting.key not in keys)]


def quality_input(
    files: Sequence[StrPath] = (),
    *,
    base: StrPath,
    run: str | None = None,
    adapter: StrPath | None = None,
) -> "QualityInput":
    """Returns the examples that `create_delta` and `check_delta` measure on.

    Args:
        files: files of held-out examples, or folders of them; by default the rows that the run
            held out.
        base: the base model's name or folder, whose tokenizer is used.
        run: the run of the fine-tune: rows that it has learned are excluded.
        adapter: the folder of an adapter, or of a whole fine-tune, that no run has made: its chat
            template is used where it differs from the base's.

    Raises:
        InputError: neither files nor a run are given, or the run has learned every row.
        NotAvailableError: a file, the run or the base is not on this machine.

    Warns:
        GymWarning: facts about the rows, such as how many are excluded.
    """
    import warnings

    from zoo.gym.data.reading.files import files_in
    from zoo.gym.delta import QualityInput
    from zoo.gym.jobs.run import open_run
    from zoo.gym.train.measuring import rows_of_files, rows_of_run
    from zoo.gym.train.run_folder.settings import read_settings

    paths = files_in([path_of("files", file) for file in files])
    if not paths and run is None:
        raise InputError(
            "files: expected files of examples or a run, got neither",
            code="published.nothing_to_measure",
        )
    folder = model_folder("base", base)
    opened = None if run is None else open_run(text_of("run", run))
    if opened is not None:
        config = read_settings(opened.config_file)
    else:
        settings: dict[str, Any] = {"model_name_or_path": folder, "dataset": paths, "date": today()}
        if adapter is not None:
            settings["adapter_name_or_path"] = path_of("adapter", adapter)
        config = TrainConfig(**settings)
    if paths:
        rows = rows_of_files(paths, config, folder, opened.folder if opened else None)
    else:
        assert opened is not None
        rows = rows_of_run(opened.folder, config, folder)
    for note in rows.notes:
        warnings.warn(note, GymWarning, stacklevel=2)
    return QualityInput(rows.examples, held_out=rows.held_out)


def _check_before(config: TrainConfig, base: Path) -> None:
    """Refuses before there is a run folder what a look at the base's files can tell."""
    from zoo.gym.jobs.outputs import check_unclaimed
    from zoo.gym.train.planning.fixed_base import check_fixed_base
    from zoo.gym.train.planning.names import check_names

    check_names(config, base)
    check_fixed_base(config, base)
    if config.output_dir is not None:
        check_unclaimed(Path(config.output_dir))


def _checked_rows(config: TrainConfig) -> str:
    """Returns the rows that Python gave as JSON Lines, after checking that a run can start."""
    from zoo.backends.launched import launched_place
    from zoo.gym.train.planning.faults import check_engine

    check_engine(config)
    if launched_place() is not None:
        raise InputError(
            "several processes were started by a launcher: expected one, which starts the others",
            hint="TrainConfig(num_processes=2) without a launcher, or zoo-gym train with it",
            code="published.launched",
        )
    require_processes(config)
    rows = rows_text(config.rows)
    _check_data(config, rows)
    return rows


def _check_data(config: TrainConfig, rows: str) -> None:
    """Refuses data that cannot be used before there is a run."""
    from zoo.gym.config.stages import load_method
    from zoo.gym.data.reading.dataset import check_dataset
    from zoo.gym.train.run_folder.pinned import check_dataset_dir, layout_of

    if not config.rows:
        check_dataset_dir(config)
    kinds, layout = load_method(config.stage).reads, layout_of(config)
    _with_files(config, rows, lambda files: check_dataset(files, kinds, layout))


def _with_files(config: TrainConfig, rows: str, check: Callable[[Sequence[Path]], object]) -> None:
    """Has the data files checked, or those of rows, which messages call `dataset: row 1`."""
    from zoo.gym.train.run_folder.pinned import dataset_files

    if not rows:
        check(dataset_files(config).used)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dataset.jsonl"
        path.write_text(rows, encoding="utf-8")
        try:
            check([path])
        except InputError as error:
            hint = error.hint.replace(str(path), "dataset") if error.hint else None
            message = re.sub(rf"{re.escape(str(path))}:(?=\d)", "dataset: row ", error.message)
            message = message.replace(str(path), "dataset")
            raise InputError(message, hint=hint, code="published.invalid") from None


def _with_stored_rows(run: "Run", config: TrainConfig, rows: str) -> TrainConfig:
    """Stores rows in the run folder and returns the settings with their path, also stored."""
    from zoo.gym.train.run_folder.settings import store_settings

    write_beside(run.rows_file, rows)
    config = config.model_copy(update={"dataset": (str(run.rows_file),)})
    store_settings(run.config_file, run.env_file, config)
    return config


def _hold_out_last(run: "Run", config: TrainConfig, count: int) -> None:
    """Stores a split of the run in which the last rows are held out."""
    from zoo.gym.config.stages import load_method
    from zoo.gym.data import Split, fingerprint, read_dataset
    from zoo.gym.train.run_folder.pinned import layout_of
    from zoo.gym.train.run_folder.split import store_split

    kinds, layout = load_method(config.stage).reads, layout_of(config)
    records = read_dataset([run.rows_file], kinds=kinds, layout=layout).records
    learned = run.rows_file.read_text(encoding="utf-8").count("\n") - count
    places = [
        i for i, record in enumerate(records) if int(record.source.rpartition(":")[2]) > learned
    ]
    store_split(run.folder, Split(len(records), tuple(places)), fingerprint([run.rows_file]))
