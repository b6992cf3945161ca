"""`delta check`: the first fault is named, and nothing after it is trusted."""

from pathlib import Path

from tests.codes import raises
from zoo.gym.delta import check_delta


def test_a_sound_delta_passes_all_that_needs_no_data(dense: Path, base: Path) -> None:
    checks = {check.name: check for check in check_delta(dense, base=base)}
    assert [name for name, check in checks.items() if check.ok] == [
        *("format", "digest", "header", "finite", "identity")
    ]
    assert checks["quality"].ok is None
    assert checks["quality"].as_json() == {
        "name": "quality",
        "ok": None,
        "detail": "no data was given",
    }


def test_without_a_base_identity_is_not_checked(dense: Path) -> None:
    checks = {check.name: check.ok for check in check_delta(dense)}
    assert checks["identity"] is None
    assert checks["finite"] is True


def test_a_flipped_bit_fails_the_digest_and_ends_the_list(dense: Path, tmp_path: Path) -> None:
    content = bytearray(dense.read_bytes())
    content[-1] ^= 1
    damaged = tmp_path / "d.safetensors"
    damaged.write_bytes(content)
    checks = check_delta(damaged)
    assert [(check.name, check.ok) for check in checks] == [("format", True), ("digest", False)]
    assert "is damaged" in checks[-1].detail


def test_another_base_fails_the_identity(dense: Path, tuned: Path) -> None:
    check = check_delta(dense, base=tuned, base_id="other")[-1]
    assert (check.name, check.ok) == ("identity", False)
    assert "expected 'tiny'" in check.detail


def test_a_model_fails_the_format(base: Path) -> None:
    (check,) = check_delta(base / "model.safetensors")
    assert (check.name, check.ok) == ("format", False)


def test_an_absent_delta_is_not_available(tmp_path: Path) -> None:
    with raises("delta.no_such_file"):
        check_delta(tmp_path / "none.safetensors")
