"""All runs with what each is doing now, read from their folders with the help of the index."""

import sqlite3
from contextlib import suppress
from dataclasses import replace
from typing import cast

from zoo.gym.jobs.events import tail_events
from zoo.gym.jobs.identity import read_identity
from zoo.gym.jobs.run import Run, run_folders
from zoo.gym.jobs.state import State, Status, fold, reconcile
from zoo.gym.store import RunIndex, RunRow


def list_runs() -> list[RunRow]:
    """Returns every run, newest first; those whose process is gone are marked interrupted."""
    return _refreshed(reuse=True)


def reindex() -> list[RunRow]:
    """Makes the index anew from the run folders alone, and returns every run, newest first."""
    return _refreshed(reuse=False)


def _refreshed(*, reuse: bool) -> list[RunRow]:
    with RunIndex() as index:
        known = index.rows()
        rows = [_row(run, known.get(run.id) if reuse else None) for run in run_folders()]
        changed = [row for row in rows if row != known.get(row.id)]
        gone = known.keys() - {row.id for row in rows}
        if changed or gone:
            with suppress(sqlite3.Error):  # another process may hold it: the next list stores it
                index.update(changed, gone)
    return rows


def _row(run: Run, known: RunRow | None) -> RunRow:
    stamp = _stamp(run)
    if known is None or known.stamp != stamp or known.folder != str(run.folder):
        known = RunRow(
            run.id, "queued", 0, None, None, _model(run), 0.0, 0.0, str(run.folder), 0, stamp
        )
    events, offset = tail_events(run.events.path, known.offset)
    before = Status(
        cast("State", known.state), known.step, known.steps, known.created, known.updated
    )
    status = reconcile(run, replace(fold(before, events), offset=offset))
    identity = read_identity(run.identity_file) if status.live else None
    return replace(
        known,
        state=status.state,
        step=status.step,
        steps=status.steps,
        pid=identity.pid if identity else None,
        created=status.created,
        updated=status.updated,
        offset=status.offset,
    )


def _stamp(run: Run) -> int:
    try:
        return run.config_file.stat().st_mtime_ns
    except FileNotFoundError:
        return 0  # the folder is being deleted


def _model(run: Run) -> str | None:
    """Returns the base model that the settings name, under either of its keys."""
    import yaml

    try:
        found: object = yaml.safe_load(run.config_file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, FileNotFoundError):
        return None
    settings = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    model = settings.get("model_name_or_path") or settings.get("model")
    return model if isinstance(model, str) else None
