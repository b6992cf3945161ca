"""How a checkpoint that cannot be written is told."""

from pathlib import Path

import pytest
from safetensors import SafetensorError

from zoo.gym.errors import StorageError
from zoo.gym.train.progress import full_disk_told


@pytest.mark.skipif("sys.platform == 'win32'", reason="error numbers of POSIX")
def test_a_full_disk_that_the_safetensors_library_met_is_told_as_such() -> None:
    with pytest.raises(StorageError) as raised, full_disk_told(Path("/run")):
        raise SafetensorError("Error while serializing: I/O error: (os error 28)")
    assert raised.value.message == "cannot write '/run': no space left on device"
    assert raised.value.hint == "free some space on that disk"


def test_what_else_the_safetensors_library_says_is_passed_on() -> None:
    told = pytest.raises(StorageError, match=r"cannot write '.*run': something else")
    with told, full_disk_told(Path("/run")):
        raise SafetensorError("something else")
