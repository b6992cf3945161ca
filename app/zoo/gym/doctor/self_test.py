"""Tests this installation with zen-pico: kernels, loading, scoring, training, generation, a delta.

The other engines of the machine that work take the same steps.

Runs as `python -m zoo.gym.doctor.self_test` in a separate process and writes one JSON object per
line. A failed check ends it with a message; a crash ends it like any program, and `examine.py`
reports either.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.errors import GymError
from zoo.gym.no_network import no_network
from zoo.gym.offline import go_offline
from zoo.models import PICO, pico_folder, registry

if TYPE_CHECKING:
    from zoo.backends.base import Backend, Batch, Policy, Scorer

Emit = Callable[[Mapping[str, object]], None]
Log = Callable[[str], None]

CHECKS = ("kernels", "load", "score", "train", "generate", "delta", "engines")
"""The checks, in order."""

ROWS = (("Spell cat backward.", "tac"), ("What is 2 + 3?", "2 + 3 is 5."))
"""The rows that are scored and learned: two of different length."""

SCORE_NATS = 10.6966
"""Nats per token of zen-pico on `ROWS`; tests/gym/doctor computes it with plain transformers."""

TOLERANCE = 1e-3
"""In nats: float32 sums in another order differ by less than a hundredth of this."""

LEARNING_RATE = 0.01
KEPT = 0.75
"""Share of the step's gain that a 2-bit delta must keep."""


def main() -> int:
    """Reports devices and checks on stdout; returns 1 after a check that failed."""
    stream = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    # the output of a library must not be mistaken for ours
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def emit(fields: Mapping[str, object]) -> None:
        print(json.dumps(fields), file=stream, flush=True)

    go_offline()
    try:
        with no_network():
            report_devices(emit)
            run_checks(emit)
    except GymError as error:
        emit({"failed": error.message})
        return 1
    return 0


def report_devices(emit: Emit) -> None:
    """Reports every device, why it is used or not, and the free memory of the used one."""
    from zoo.backends.machine.detect import built_for_cuda, detect
    from zoo.gym.engine import open_engine

    detected, engine = detect(), open_engine()
    devices = [{"name": detected.name, "used": True, "reason": detected.reason}]
    devices += [{"name": name, "used": False, "reason": why} for name, why in detected.others]
    emit(
        {
            "devices": devices,
            "products": engine.describe_precision(),
            "cuda_built": built_for_cuda(),
            "free_bytes": engine.free_bytes(),
        }
    )


def run_checks(emit: Emit) -> None:
    """Runs every check on the device that training uses.

    Raises:
        GymError: a check found something wrong.
    """
    with check(emit, "kernels") as log:
        kernels(log)
    with check(emit, "load") as log:
        from zoo.backends import load_backend

        backend = load_backend()
        policy = load(backend, log)
        batch = rows()
    with check(emit, "score") as log:
        score(policy, batch, log)
    with check(emit, "train") as log:
        train(policy, batch, log)
    with check(emit, "generate") as log:
        generate(policy, log)
    with check(emit, "delta") as log, tempfile.TemporaryDirectory(prefix="zoo-gym-") as scratch:
        round_trip(backend, policy, batch, Path(scratch), log)
    with check(emit, "engines") as log:
        engines(backend.name, batch, log)


@contextmanager
def check(emit: Emit, name: str) -> Generator[Log]:
    """Reports the start and end of a check; the block logs its result."""
    sentence: list[str] = []
    emit({"begin": name})
    since = time.monotonic()
    yield sentence.append
    emit({"done": name, "said": sentence[0], "seconds": round(time.monotonic() - since, 2)})


def kernels(log: Log) -> None:
    """Compares every instruction set of the core with the scalar code."""
    from zoo.core import self_test as test_kernels

    verdicts = test_kernels()
    for verdict in verdicts:
        expect(verdict.ok, f"{verdict.isa}: {verdict.difference}")
    names = ", ".join(verdict.isa for verdict in verdicts if verdict.isa != "scalar")
    compared = f"{verdicts[0].checked} results"
    log(f"{names}: same bytes as scalar in {compared}" if names else f"scalar only, {compared}")


def load(backend: "Backend", log: Log) -> "Policy":
    """Loads zen-pico with a new adapter."""
    from zoo.backends.base import LoadSpec, LoraSpec

    policy = backend.load(pico_folder(), LoadSpec(train=LoraSpec(rank=4, alpha=8.0)))
    expected = next(entry.parameters for entry in registry() if entry.alias == PICO)
    count = policy.parameter_count()
    expect(count == expected, f"expected {expected} parameters, got {count}")
    log(f"{count:,} parameters on {backend.name}")
    return policy


def rows() -> "Batch":
    """Returns `ROWS` as training would see them."""
    from zoo.gym.data import EncodeOptions, Record, encode_records, load_tokenizer
    from zoo.gym.data.batches import collate
    from zoo.gym.objectives.constants import WINDOW_TOKENS

    records = [Record("self-test", "completion", prompt=a, completion=b) for a, b in ROWS]
    options = EncodeOptions(cutoff_len=128)
    units = encode_records(records, load_tokenizer(pico_folder()), options).units
    return collate(units, {WINDOW_TOKENS: sum(unit.learned_tokens for unit in units)})


def score(policy: "Policy", batch: "Batch", log: Log) -> None:
    """Compares a loss with the stored one."""
    nats = loss(policy, batch)
    near = abs(nats - SCORE_NATS) <= TOLERANCE
    expect(near, f"expected {SCORE_NATS:.4f} nats per token, got {nats:.4f}")
    log(f"{nats:.4f} nats per token, as expected")


def train(policy: "Policy", batch: "Batch", log: Log) -> None:
    """Takes one step, and compares the weights and the base before and after it."""
    from zoo.gym.objectives.sft import SupervisedLoss

    base, weights = loss(policy, batch), {name: value.copy() for name, value in policy.trained()}
    policy.accumulate(SupervisedLoss(), batch, key=0)
    policy.optimizer_step(LEARNING_RATE, 1.0)
    moved = sum(int((value != weights[name]).sum()) for name, value in policy.trained())
    expect(moved > 0, "expected a step to change the weights, got no change")
    trained = loss(policy, batch)
    expect(trained < base, f"expected a lower loss after a step, got {base:.4f} -> {trained:.4f}")
    with policy.reference() as reference:
        reference_nats = loss(reference, batch)
    unchanged = abs(reference_nats - base) <= TOLERANCE
    expect(unchanged, f"expected an unchanged base, got {base} -> {reference_nats}")
    log(f"one step changed {moved:,} weights, loss {base:.2f} -> {trained:.2f}, base unchanged")


def generate(policy: "Policy", log: Log) -> None:
    """Generates an answer and scores it: the log-probabilities of each token must agree."""
    import numpy as np

    from zoo.backends.base import Batch, Sampling, Stat
    from zoo.gym.data import EncodeOptions, Message, encode_prompt, load_tokenizer

    tokenizer = load_tokenizer(pico_folder())
    prompt = encode_prompt([Message("user", ROWS[0][0])], tokenizer, EncodeOptions(cutoff_len=128))
    (answer,) = policy.generate([prompt], Sampling(max_new_tokens=12), keys=[0])
    ids_BT = np.array([[*prompt, *answer.ids]], dtype=np.int64)
    learned_BT = np.arange(ids_BT.shape[1])[None, :] >= len(prompt)
    batch = Batch(ids_BT, np.array([ids_BT.shape[1]], dtype=np.int64), learned_BT)
    scored = policy.score(batch, frozenset({Stat.LOGPROBS}))[Stat.LOGPROBS][0, len(prompt) :]
    apart = float(np.abs(scored - np.array(answer.logprobs)).max())
    expect(
        apart <= TOLERANCE,
        f"expected the same log-probabilities when scored, got a difference of {apart:.4f}",
    )
    log(f"{len(answer.ids)} tokens, scored with the log-probabilities they were sampled with")


def round_trip(
    backend: "Backend", policy: "Policy", batch: "Batch", folder: Path, log: Log
) -> None:
    """Creates a delta of the step, loads it, and checks that one flipped bit is refused."""
    from zoo.backends.base import LoadSpec
    from zoo.gym.delta import create_delta, delta_model, load_delta

    file, base = folder / "delta.safetensors", pico_folder()
    policy.save_result(folder / "adapter", base=PICO)
    report = create_delta(folder / "adapter", base=base, base_id=PICO, out=file)
    with delta_model(load_delta(file), base) as model:
        loaded = loss(backend.load(model.folder, LoadSpec(adapter=model.adapter)), batch)
    with policy.reference() as reference:
        untrained = loss(reference, batch)
    share = (untrained - loaded) / (untrained - loss(policy, batch))
    expect(share >= KEPT, f"expected to keep at least {KEPT:.0%} of the step, got {share:.0%}")
    expect(refuses_flipped_bit(file), "expected a damaged delta to be refused, but it was loaded")
    log(f"a 2-bit file of {report.file_bytes:,} bytes keeps {share:.0%} of the step")


def engines(used: str, batch: "Batch", log: Log) -> None:
    """Loads, scores, trains and generates on each other device that works, by name too."""
    from zoo.backends import ENGINES, load_backend
    from zoo.backends.machine.detect import probe

    names = [name for name in ENGINES if name != used and probe(name)[0]]
    for name in names:
        try:
            policy = load(load_backend(name), _unsaid)
            score(policy, batch, _unsaid)
            train(policy, batch, _unsaid)
            generate(policy, _unsaid)
        except GymError as error:
            raise GymError(f"backend={name}: {error.message}", code="doctor.failed") from error
    log(f"the same on {', '.join(names)}" if names else f"no other than {used}")


def _unsaid(sentence: str) -> None:
    del sentence


def refuses_flipped_bit(file: Path) -> bool:
    """Flips the last bit of a delta file and returns whether it is refused."""
    from zoo.gym.delta import load_delta
    from zoo.gym.errors import InputError

    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    try:
        load_delta(file)
    except InputError:
        return True
    return False


def loss(policy: "Scorer", batch: "Batch") -> float:
    """Returns nats per learned token."""
    from zoo.backends.base import Stat

    logprobs_BT = policy.score(batch, frozenset({Stat.LOGPROBS}))[Stat.LOGPROBS]
    return -float(logprobs_BT.sum(dtype="float64")) / int(batch.loss_mask_BT.sum())


def expect(holds: bool, sentence: str) -> None:
    """Raises GymError with the message if a condition is false."""
    if not holds:
        raise GymError(sentence, code="doctor.failed")


if __name__ == "__main__":
    sys.exit(main())
