"""Connecting the processes of a run, and the devices that they take."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from zoo.backends.machine.detect import device_keys
from zoo.backends.ranks import ALONE, LostProcessError, Place
from zoo.backends.torch.parallel.group import connect, lost_in_a_pass


def test_a_process_that_is_lost_at_the_start_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise dist.DistNetworkError("connection reset by peer\nmore")

    monkeypatch.setattr(dist, "init_process_group", refuse)
    message = "process 2 of 2 lost the connection to the others: connection reset by peer$"
    with (
        pytest.raises(LostProcessError, match=message),
        connect(Place(1, 2, 1, str(tmp_path / "meet")), "cpu"),
    ):
        pass


def test_each_process_reserves_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    ids = ["b", "a", "c"]
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda number: SimpleNamespace(uuid=ids[number])
    )
    assert device_keys("cuda", 1) == ["cuda-b"]
    # in one order for all runs, so that two of them never wait for each other
    assert device_keys("cuda", 2) == ["cuda-a", "cuda-b"]
    assert device_keys("cpu", 2) == ["cpu"]


def test_a_pass_that_fails_by_itself_is_not_a_lost_process() -> None:
    lost = RuntimeError("[gloo/transport/tcp/pair.cc:538] Connection closed by peer")
    with pytest.raises(LostProcessError, match="lost the connection"), lost_in_a_pass(ALONE):
        raise lost
    for own in (RuntimeError("mat1 and mat2 shapes"), torch.OutOfMemoryError("no NCCL memory")):
        with pytest.raises(type(own), match=str(own)), lost_in_a_pass(ALONE):
            raise own
