"""zen-nano's geometry in 4 bits, on two cores: loading it, SFT of 512 tokens, a GRPO step.

Random weights, LoRA of rank 16, each figure in its own process with the allocator setting of our
workers. What loading holds beyond the codes is counted after a small model has been loaded, so that
no library is. Peaks of steps are those of whole processes, libraries included.

usage: python -m bench nano_qlora                 ten minutes of two cores, 1.5 GB of disk
       ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 python -m bench nano_qlora
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measure import MB, Case, Skipped, reset_peak_bytes, status_bytes
from bench.nano import GB, TEXT, TOKENIZER, bf16_pays, group_time, grouped, memory_error
from bench.step import own_process, run_step
from bench.zen_nano import write_model
from zoo.models.registry import registry

PEAK_GB, PEAK_GB_WITHOUT_BF16 = 1.9, 2.4
STEPS = 3
LAYERS = 2
"""The layers that may be in memory in 16 bits while a base is quantised."""


def result_name() -> str:
    """Returns the name of the result file: one for each kind of processor."""
    return "nano_qlora" if bf16_pays() else "nano_qlora-no-bf16"


def run() -> Iterator[Case | Skipped]:
    """Yields the cases."""
    if not TOKENIZER.exists() or not TEXT.exists():
        yield Skipped("nano_qlora", f"expected {TOKENIZER} and {TEXT}")
        return
    entry = next(entry for entry in registry() if entry.alias == "zen-nano")
    bar = PEAK_GB if bf16_pays() else PEAK_GB_WITHOUT_BF16
    with tempfile.TemporaryDirectory(prefix="zen-nano-") as name:
        place = Path(name)
        model = write_model(place / "hub", entry, tokenizer=TOKENIZER, seed=0)
        for bits in (4, 8):
            yield loading(model, bits)
        yield from steps(model, bar)
        found = grouped(place, "quantization_bit=4")
        yield memory_error("nf4: estimate, GRPO, 4 x (128 + 128)", found)
        yield peak("nf4: GRPO, 4 x (128 + 128)", measured_peak(found), bar)
        yield group_time("nf4: GRPO step, 4 x (128 + 128)", found)


def loading(model: Path, bits: int) -> Case:
    """Compares what loading holds beyond the codes with two layers in 16 bits."""
    found = own_process("bench.nano_qlora", str(model), str(bits))
    added, layers = found["added_mb"], LAYERS * found["layer_mb"]
    told = f"{LAYERS} layers, {layers:.0f} MB"
    return Case(
        f"{bits} bits: loading, beyond the codes", added, "MB", told, added / layers, "<= 1"
    )


def steps(model: Path, bar: float) -> Iterator[Case]:
    """Yields the peak and the time of steps on codes, and those on bf16."""
    options = ("--tokens", "512", "--steps", str(STEPS), "--threads", "2")
    coded, plain = (run_step("ours", model, *options, *more) for more in (("--bits", "4"), ()))
    yield peak(f"nf4: {STEPS} steps of 512 tokens", coded["peak_host_bytes"], bar)
    memory = coded["peak_host_bytes"]
    share = memory / plain["peak_host_bytes"]
    yield Case("nf4: peak, 512 tokens", memory / GB, "GB", "bf16", share, "")
    yield Case("nf4: step", coded["wall_s"], "s", "bf16", coded["wall_s"] / plain["wall_s"], "")
    apart = abs(coded["losses"][-1] - plain["losses"][-1])
    yield Case("nf4: third loss", coded["losses"][-1], "nats", "bf16, difference", apart, "")


def peak(name: str, found: int, bar: float) -> Case:
    """Compares a peak with its bar."""
    return Case(f"{name}: peak", found / GB, "GB", "1 GB", found / GB, f"<= {bar}")


def measured_peak(events: list[dict[str, Any]]) -> int:
    """Returns the peak of a run in bytes."""
    end = next(event for event in events if event["kind"] == "end")
    return int(end["metrics"]["peak_host_bytes"])


def loaded(folder: Path, bits: int) -> dict[str, float]:
    """Loads a model in few bits; returns what that held beyond the codes, and a layer's size."""
    from dataclasses import replace

    from zoo.backends.base import QuantizationSpec
    from zoo.backends.torch.files.load import load_model
    from zoo.backends.torch.quantized.base import stored_bytes
    from zoo.models.folder import model_geometry

    shape = model_geometry(folder)
    assert shape is not None
    spec = QuantizationSpec(bits)
    entry = next(entry for entry in registry() if entry.alias == "zen-nano")
    small = replace(shape, layers=1, hidden=128, ffn=256)
    with tempfile.TemporaryDirectory() as place:
        first = write_model(Path(place), replace(entry, geometry=small), tokenizer=None, seed=0)
        load_model(first, dtype="bf16", quantization=spec)
    before = reset_peak_bytes()
    model = load_model(folder, dtype="bf16", quantization=spec)
    added = status_bytes("VmHWM") - before - stored_bytes(model)
    layer = 2 * shape.linear_parameters() / shape.layers
    return {"added_mb": added / MB, "layer_mb": layer / MB}


if __name__ == "__main__":
    print(json.dumps(loaded(Path(sys.argv[1]), int(sys.argv[2]))))
