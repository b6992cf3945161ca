"""Files of examples that a gate showed: read where everybody reads them."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from tests.codes import raises
from tests.gym.rounds.protocol.people import EVALUATION, terms
from zoo.gym.rounds.measure.examples import show, shown_file
from zoo.gym.rounds.protocol.records import Measured
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.storage.base import FolderStorage
from zoo.gym.rounds.storage.chunks import chunk_name


def test_a_file_that_only_this_machine_has_is_not_shown(tmp_path: Path) -> None:
    file, storage = tmp_path / "rows.jsonl", FolderStorage(tmp_path / "round")
    file.write_text("rows")
    storage.write("manifest.json", b"{}")
    shown = show(file, "evaluation", storage)
    digest = sha256(b"rows").hexdigest()
    manifest = terms(evaluation={**EVALUATION, "digest": digest, "bytes": 4})
    state = replace(State("0" * 64, manifest), measured=Measured(shown={"evaluation": shown}))
    for _ in range(2):
        assert shown_file("evaluation", state, storage, tmp_path).read_text() == "rows"
    (storage.folder / chunk_name(shown.chunks)).unlink()
    with raises("rounds.chunk_missing") as caught:
        shown_file("evaluation", state, storage, tmp_path)
    assert caught.value.code == "rounds.chunk_missing"
