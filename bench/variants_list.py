"""The first page of a list of a million variants, against a SELECT of it from the index alone."""

import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

from bench.measure import Case, alternated, median_ratio
from zoo.gym.paths import HOME_VARIABLE, ensure_folder
from zoo.gym.variants import index
from zoo.gym.variants.store import ENDING, folder_called, root

VARIANTS, PAGE = 1_000_000, 50
SELECT = "SELECT base, name FROM variants ORDER BY base, name LIMIT ?"


def run() -> Iterator[Case]:
    """Yields the time of the list after a million files came, and of a page from then on."""
    with tempfile.TemporaryDirectory() as home, patch.dict(os.environ, {HOME_VARIABLE: home}):
        folder = ensure_folder(folder_called("zen-pico"))
        for number in range(VARIANTS):
            (folder / f"user-{number:07}{ENDING}").touch()
        time.sleep(index.SETTLED_NS / 1e9)
        started = time.process_time()
        index.page(PAGE)
        yield Case("list of 1e6 new files", time.process_time() - started, "CPU-s", "", 0, "")
        file = root().with_suffix(".db")
        rounds = alternated({"page": lambda: index.page(PAGE), "select": lambda: _select(file)})
        ratio = median_ratio(rounds, "page", "select")
        milliseconds = 1e3 * min(times["page"] for times in rounds)
        yield Case("page of 50 of 1e6", milliseconds, "CPU-ms", "index-only SELECT", ratio, "<= 3")


def _select(file: Path) -> list[object]:
    with closing(sqlite3.connect(file)) as database:
        return database.execute(SELECT, (PAGE,)).fetchall()
