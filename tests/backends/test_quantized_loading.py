"""What a base in 4 or 8 bits needs while it is loaded, and the codes that it gets."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.step import own_process
from bench.zen_nano import write_model
from zoo.backends.torch.quantized import pages, pieces
from zoo.backends.torch.quantized.library import import_bitsandbytes
from zoo.backends.torch.quantized.pages import own_pages
from zoo.backends.torch.quantized.pieces import quantizing_in_pieces
from zoo.backends.torch.quantized.stored import stored_tensors
from zoo.models.registry import registry

bnb: Any = import_bitsandbytes()
if bnb is None:
    pytest.skip("needs the extra qlora", allow_module_level=True)


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).bfloat16()


def four_bits(weight: torch.Tensor, kind: str, *, double: bool) -> Any:
    return bnb.nn.Params4bit(weight, quant_type=kind, compress_statistics=double).to("cpu")


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_WEIGHTS", 1024)
    monkeypatch.setattr(pages, "LEAST_BYTES", 1)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("kind", ["nf4", "fp4"])
@pytest.mark.parametrize("shape", [(64, 192), (50, 30), (7, 333)])  # whole blocks, and remainders
def test_pieces_have_the_codes_of_a_whole_weight(
    shape: tuple[int, int], kind: str, double: bool
) -> None:
    whole = four_bits(drawn(*shape), kind, double=double)
    with quantizing_in_pieces():
        parts = four_bits(drawn(*shape), kind, double=double)
    assert torch.equal(parts.data, whole.data)
    expected, found = (one.quant_state.as_dict(packed=True) for one in (whole, parts))
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    values = [bnb.functional.dequantize_4bit(one.data, one.quant_state) for one in (whole, parts)]
    assert torch.equal(*values)


@pytest.mark.usefixtures("small_pieces")
def test_rows_in_pieces_have_the_codes_of_a_whole_weight() -> None:
    whole = bnb.functional.int8_vectorwise_quant(drawn(50, 192).half())
    with quantizing_in_pieces():
        parts = bnb.functional.int8_vectorwise_quant(drawn(50, 192).half())
    assert torch.equal(parts[0], whole[0])
    assert torch.equal(parts[1], whole[1])


@pytest.mark.usefixtures("small_pieces")
def test_the_library_never_sees_more_than_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    for name in ("quantize_4bit", "int8_vectorwise_quant"):
        real = getattr(bnb.functional, name)

        def seen(A: torch.Tensor, *given: Any, real: Any = real, **options: Any) -> Any:
            sizes.append(A.numel())
            return real(A, *given, **options)

        monkeypatch.setattr(bnb.functional, name, seen)
    with quantizing_in_pieces():
        four_bits(drawn(64, 192), "nf4", double=True)
        bnb.functional.int8_vectorwise_quant(drawn(50, 192).half())
    assert len(sizes) == 12 + 10  # 12,288 / 1,024, and 50 rows by 5
    assert max(sizes) <= 1024


def test_stored_tensors_are_those_of_the_file(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    weight = drawn(300, 200)
    save_file({"weight": weight}, tmp_path / "model.safetensors")
    read = stored_tensors([tmp_path / "model.safetensors"], [])["weight"][...]
    assert torch.equal(read, weight)


def test_memory_of_its_own_is_written_and_read() -> None:
    room = own_pages(100_000)
    room[:] = 7
    assert room.sum() == 700_000
    assert own_pages(0).numel() == 0


@pytest.mark.parametrize(
    "bits", [pytest.param(4, marks=pytest.mark.slow), pytest.param(8, marks=pytest.mark.nightly)]
)
def test_loading_holds_at_most_two_layers_beyond_the_codes(tmp_path: Path, bits: int) -> None:
    """Twelve layers of 31 MB in bf16: read whole they would be 377 MB."""
    entry = next(entry for entry in registry() if entry.alias == "zen-nano")
    entry = replace(entry, geometry=replace(entry.geometry, layers=12, vocab=151_936 // 8))
    folder = write_model(tmp_path, entry, tokenizer=None, seed=0)
    config = json.loads((folder / "config.json").read_text())
    config |= {"bos_token_id": 0, "eos_token_id": 0}
    (folder / "config.json").write_text(json.dumps(config))
    found = own_process("bench.nano_qlora", str(folder), str(bits))
    assert found["added_mb"] <= 2 * found["layer_mb"]
