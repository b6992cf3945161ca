"""The names that users gave their runs."""

from collections.abc import Iterable
from pathlib import Path

from zoo.gym.jobs import Run, RunRow


def run_names(rows: Iterable[RunRow]) -> dict[str, str]:
    """Returns the name of each run that has one, by id; reads a small file per run."""
    names = {row.id: Run(Path(row.folder)).name for row in rows}
    return {run_id: name for run_id, name in names.items() if name}
