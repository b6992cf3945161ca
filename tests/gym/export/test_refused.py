"""Formats that are not written say why, and the reasons still hold."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.codes import raises
from tests.gym.export.models import write_base
from zoo.backends.machine.installing import requirements_of
from zoo.gym.cli import main
from zoo.gym.export.refused import REFUSED
from zoo.gym.export.run import FORMATS, format_of

CONSTRAINTS = Path(__file__).parents[3] / "constraints.txt"


@pytest.mark.parametrize("name", REFUSED)
def test_the_reason_and_another_format_are_named(name: str) -> None:
    with raises("export.format_not_supported", f"--format {name}: not supported: ") as error:
        format_of(name)
    hint = str(error.value.hint)
    assert any(f"--format {form}" in hint for form in FORMATS)
    assert name not in FORMATS


@pytest.mark.parametrize("name", REFUSED)
def test_no_extra_has_the_library(name: str) -> None:
    package = REFUSED[name].package
    assert package not in {requirement.name for requirement in requirements_of("all")}
    pins = CONSTRAINTS.read_text().splitlines()
    assert not [pin for pin in pins if pin.startswith(f"{package}==")]


def test_tensorrt_is_made_from_onnx() -> None:
    assert REFUSED["tensorrt"].hint == "--format onnx prints the line of trtexec that makes one"


def test_the_command_ends_without_an_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", "zen-pico", "--format", "coreml"]) == 4
    assert "coremltools 9.0 lacks operations" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(find_spec("coremltools") is None, reason="coremltools is not installed")
def test_coremltools_still_lacks_an_operation(tmp_path: Path) -> None:
    from importlib import import_module

    from zoo.backends.torch.traced import load, trace

    program = trace(load(write_base(tmp_path / "m"))).program.run_decompositions({})
    with pytest.raises(NotImplementedError, match="Unsupported fx node"):
        import_module("coremltools").convert(program)
