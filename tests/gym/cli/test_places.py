"""`paths` and `models`: what is where, told truthfully."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

Call = Callable[..., Any]


def test_every_folder_follows_the_home(call: Call, tmp_path: Path) -> None:
    found = call("paths", "--json").json
    assert found.pop("models") == str(tmp_path / "hub")
    assert all(path.startswith(str(tmp_path / "home")) for path in found.values())


def test_a_model_that_is_not_here_has_no_bytes(call: Call) -> None:
    rows = {row["name"]: row for row in call("models", "--json").json["models"]}
    assert rows["zen-nano"]["here_bytes"] == 0
    assert rows["zen-nano"]["id"] == "Qwen/Qwen3-0.6B"


def test_a_blob_that_a_snapshot_links_to_counts_once(call: Call, tmp_path: Path) -> None:
    entry = tmp_path / "hub" / "models--Qwen--Qwen3-0.6B"
    snapshot = entry / "snapshots" / "c0ffee"
    snapshot.mkdir(parents=True)
    (entry / "blobs").mkdir()
    (entry / "blobs" / "b").write_bytes(b"12345")
    (snapshot / "model.safetensors").symlink_to(entry / "blobs" / "b")
    rows = {row["name"]: row for row in call("models", "--json").json["models"]}
    assert rows["zen-nano"]["here_bytes"] == 5


def test_other_models_of_the_cache_are_listed(call: Call, tmp_path: Path) -> None:
    (tmp_path / "hub" / "models--org--name" / "snapshots").mkdir(parents=True)
    names = [row["name"] for row in call("models", "--json").json["models"]]
    assert names == ["zen-pico", "smollm2", "zen-nano", "zen-eco", "org/name"]
