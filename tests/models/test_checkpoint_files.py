"""Which files of a folder are weights, and what is said of folders that have none."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codes import raises
from zoo.core.errors import GymWarning, InputError
from zoo.models import checkpoint_files
from zoo.models.checkpoint_files import warn_of_unused_weights
from zoo.models.folder import read_object

Read: TypeAlias = Callable[[Path], object]

INDEX = "model.safetensors.index.json"
SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
EMPTY = b"\x02\0\0\0\0\0\0\0{}"


def write_index(folder: Path, weight_map: object) -> None:
    """Writes a shard index with `weight_map`."""
    (folder / INDEX).write_text(json.dumps({"weight_map": weight_map}))


def test_one_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(EMPTY)
    assert checkpoint_files(tmp_path) == [tmp_path / "model.safetensors"]


def test_shards_come_once_each_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in SHARDS:
        (tmp_path / name).write_bytes(EMPTY)
    write_index(tmp_path, {"z": SHARDS[0], "a": SHARDS[1], "b": SHARDS[0]})
    assert checkpoint_files(tmp_path) == [tmp_path / name for name in SHARDS]


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    (tmp_path / SHARDS[0]).write_bytes(EMPTY)
    write_index(tmp_path, {"a": SHARDS[0], "b": SHARDS[1]})
    with raises("models.incomplete", f"'{SHARDS[1]}' from the index is missing"):
        checkpoint_files(tmp_path)


@pytest.mark.parametrize(
    "name", ["../model.safetensors", "/etc/x.safetensors", "a\\b.safetensors", "model.bin", 3, None]
)
def test_an_index_cannot_point_out_of_its_folder(tmp_path: Path, name: object) -> None:
    write_index(tmp_path, {"a": name})
    with raises("models.bad_index", r"name of a \.safetensors file in its folder"):
        checkpoint_files(tmp_path)


@pytest.mark.slow
@given(
    content=st.binary(max_size=200)
    | st.sampled_from([b"[]", b'{"weight_map": []}', b"{}", b"[" * 9_999])
)
def test_an_index_of_any_bytes_gives_files_or_our_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    folder = tmp_path_factory.mktemp("index")
    (folder / INDEX).write_bytes(content)
    with pytest.raises(InputError, match="is not a shard index"):
        checkpoint_files(folder)


def test_pickled_weights_are_refused_by_name(tmp_path: Path) -> None:
    for name in ("pytorch_model.bin", "extra.pt", "config.json"):
        (tmp_path / name).touch()
    with raises("models.pickled_weights", r"got 'extra\.pt', 'pytorch_model\.bin'"):
        checkpoint_files(tmp_path)


@pytest.mark.parametrize(
    ("read", "file"),
    [(checkpoint_files, ""), (lambda folder: read_object(folder / "config.json"), "config.json")],
)
def test_a_pointer_is_not_taken_for_the_file(tmp_path: Path, read: Read, file: str) -> None:
    folder = tmp_path / "it's; here"
    folder.mkdir()
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"
    (folder / (file or "model.safetensors")).write_text(pointer)
    with raises("models.lfs_pointer", "a Git LFS pointer") as caught:
        read(folder)
    assert shlex.split(str(caught.value.hint)) == ["git", "-C", str(folder), "lfs", "pull"]


def test_an_adapter_is_not_taken_for_a_model(tmp_path: Path) -> None:
    (tmp_path / "adapter_model.safetensors").write_bytes(EMPTY)
    with raises("models.is_adapter"):
        checkpoint_files(tmp_path)


def test_an_empty_folder_has_no_weights(tmp_path: Path) -> None:
    with raises("models.no_weights"):
        checkpoint_files(tmp_path)


def test_an_absent_folder_is_not_available(tmp_path: Path) -> None:
    with raises("models.no_such_folder", "no such model folder"):
        checkpoint_files(tmp_path / "absent")


def test_an_index_next_to_a_single_file_is_not_used_with_a_warning(tmp_path: Path) -> None:
    for name in ("model.safetensors", *SHARDS):
        (tmp_path / name).write_bytes(EMPTY)
    write_index(tmp_path, {"a": SHARDS[0], "b": SHARDS[1]})
    assert checkpoint_files(tmp_path) == [tmp_path / "model.safetensors"]
    with pytest.warns(GymWarning, match=rf"'model\.safetensors' is loaded.*'{INDEX}' is not used"):
        warn_of_unused_weights(tmp_path)


def test_an_index_of_the_single_file_itself_is_no_second_set(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(EMPTY)
    write_index(tmp_path, {"a": "model.safetensors"})
    warn_of_unused_weights(tmp_path)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"transformers_weights": "../a.safetensors"}, "expected the name of a .safetensors file"),
        ({"transformers_weights": "a.bin"}, "expected the name of a .safetensors file"),
        ({"transformers_weights": "a.safetensors"}, "'a.safetensors' from the config is missing"),
        (
            {"transformers_weights": "m.safetensors", "text_config": {}},
            "none together with a text_config",
        ),
    ],
)
def test_a_file_that_the_config_names_is_in_the_folder(
    tmp_path: Path, config: dict[str, object], sentence: str
) -> None:
    (tmp_path / "model.safetensors").write_bytes(EMPTY)
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError) as caught:
        checkpoint_files(tmp_path)
    assert sentence in caught.value.message


def test_parts_of_a_parallel_training_are_refused(tmp_path: Path) -> None:
    for name in ("model.safetensors", "shard-00000-model-00001-of-00001.safetensors"):
        (tmp_path / name).write_bytes(EMPTY)
    with raises("models.parallel_parts", "got parts from a parallel training: 'shard-00000"):
        checkpoint_files(tmp_path)
