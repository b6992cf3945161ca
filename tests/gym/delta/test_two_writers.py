"""Two processes that make the same delta file: one is refused, and neither loses anything."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.codes import raises
from tests.gym.delta.lora import write_random_adapter
from zoo.gym import create_delta
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.delta.file.writer import named_last
from zoo.models import pico_folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))


def test_the_second_writer_is_refused_and_the_first_ends(tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    with named_last(out, last=True) as first:
        first.write_bytes(b"first")
        with raises("delta.written_elsewhere"), ExitStack() as second:
            second.enter_context(named_last(out, last=True))
        assert first.read_bytes() == b"first"
    assert out.read_bytes() == b"first"
    assert list(tmp_path.glob(".*")) == []


def test_a_file_that_appeared_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    out, writing = tmp_path / "out.safetensors", ExitStack()
    writing.enter_context(named_last(out, last=True)).write_bytes(b"mine")
    out.write_bytes(b"theirs")
    with raises("delta.written_elsewhere"):
        writing.close()
    assert out.read_bytes() == b"theirs"
    with named_last(out, last=True) as beside:  # now it is there, and may be replaced
        beside.write_bytes(b"mine")
    assert out.read_bytes() == b"mine"


def test_the_rank_of_a_layer_is_below_the_adapters(tmp_path: Path) -> None:
    adapter = write_random_adapter(tmp_path / "adapter")
    layers = {"*.down_proj": DeltaConfig(bits=8, rank=4000)}
    with raises("delta.bad_rank"):
        create_delta(adapter, base=pico_folder(), out=tmp_path / "d.safetensors", layers=layers)
