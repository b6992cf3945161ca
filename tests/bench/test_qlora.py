"""What adapters on a base in few bits learn of additions, as `bench.qlora` prints it."""

from pathlib import Path

import pytest

from bench.qlora import LEAST, MOST, divergence, learn, loaded, withheld, write_answers
from zoo.backends.torch.quantized.library import import_bitsandbytes

if import_bitsandbytes() is None:
    pytest.skip("needs the extra qlora", allow_module_level=True)


@pytest.mark.nightly
def test_the_divergence_is_that_of_rounding_the_base() -> None:
    """A model does not diverge from itself, and less from its 8 bits than from its 4."""
    plain = loaded(None)
    assert divergence(plain, plain) == pytest.approx(0, abs=1e-7)
    assert 0 < 10 * divergence(plain, loaded("int8")) < divergence(plain, loaded("nf4")) < 0.1


@pytest.mark.nightly
def test_the_loss_on_nf4_is_near_that_in_bf16_and_not_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    rows = write_answers(tmp_path)
    plain, coded = (learn(rows, kind) for kind in (None, "nf4"))
    assert LEAST <= abs(coded.loss / plain.loss - 1) <= MOST
    assert plain.loss < 0.2  # 0.33 before: both have learned
    on_plain = divergence(loaded(None, adapter=coded.adapter), loaded("nf4", adapter=coded.adapter))
    assert 0 < on_plain < 2 * divergence(loaded(None), loaded("nf4"))
    assert withheld().ids_BT.shape[0] > 500
