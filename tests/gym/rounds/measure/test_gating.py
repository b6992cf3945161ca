"""A validator is code of the gate's: what goes wrong in it is named, and is no defect of ours."""

import sys
from pathlib import Path

import pytest

from tests.codes import raises
from tests.gym.rounds.protocol.people import ALICE, digest_of
from zoo.gym.rounds.measure.gating import gate, load_validator
from zoo.gym.rounds.measure.losses import Meter

CODE = """
import sys

def raises(file, base):
    raise ValueError(f"no such table\\nin {base.name}")

def needs_more(file, base, rows):
    return None

def leaves(file, base):
    sys.exit(3)
"""
SAID = {
    "raises": "it raised ValueError: no such table\\\\x0ain base \\(checks.py:5\\)",
    "needs_more": "it raised TypeError: needs_more\\(\\) missing 1 required positional argument",
    "leaves": "it raised SystemExit: 3 \\(checks.py:11\\)",
}


@pytest.fixture
def meter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Meter:
    """A meter that finds all losses equal, in a folder with modules of the user's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "checks", raising=False)
    monkeypatch.setattr(Meter, "losses", lambda *_: [1.0] * 10)
    return Meter(tmp_path / "base", ())


@pytest.mark.parametrize("name", SAID)
def test_a_validator_that_raises_is_named_with_what_it_raised(name: str, meter: Meter) -> None:
    Path("checks.py").write_text(CODE)
    contribution, found = (ALICE.public, digest_of("file")), load_validator(f"checks:{name}")
    said = f"validator checks:{name}: expected a reason or None, but {SAID[name]}"
    with raises("rounds.validator_failed", said):
        gate(meter, [1.0] * 10, contribution, Path("a.safetensors"), found)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def ours(:", "SyntaxError: .* \\(checks.py, line 1\\)$"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(2)", "SystemExit: 2"),
    ],
)
def test_validator_module_that_fails_to_import_is_named(code: str, said: str, meter: Meter) -> None:
    Path("checks.py").write_text(code)
    expected = "validator 'checks:ours': expected a module that can be imported, but it raised"
    with raises("rounds.validator_failed", f"{expected} {said}"):
        load_validator("checks:ours")
