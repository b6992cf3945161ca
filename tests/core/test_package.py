"""The face of the package: what it exports, and what it does not load."""

import subprocess
import sys

import pytest

import zoo.core


def test_importing_it_loads_no_numpy() -> None:
    script = "import sys, zoo.core, zoo.core.signs, zoo.core.codes, zoo.core.safetensors; "
    script += "import zoo.core.identity; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_every_exported_name_is_there_and_documented() -> None:
    aliases = {"DType", "GroupCodec", "Isa"}  # of types, which have no text
    for name in set(zoo.core.__all__) - aliases:
        assert getattr(zoo.core, name).__doc__, name


def test_a_name_that_is_not_exported_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'blake3_file'"):
        zoo.core.blake3_file  # type: ignore[attr-defined]  # noqa: B018
