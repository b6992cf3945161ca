"""Measures a round and signs the figures: contributions, the result's size, the result, values.

Each record is left in the inbox of the round as soon as it is made, so that the same command
continues where it was cut. What follows from records (who counts, the factor, the result) is
computed here as by everybody else.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import fsum, isfinite
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from zoo.gym.delta.file.reader import load_delta
from zoo.gym.delta.reading.identity import verify_base
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.rounds.compute.aggregate import candidates_of, choose, compute
from zoo.gym.rounds.compute.collect import Work
from zoo.gym.rounds.measure import examples
from zoo.gym.rounds.measure.gating import Validator, compare, gate
from zoo.gym.rounds.measure.losses import Meter, values
from zoo.gym.rounds.measure.probes import check_probes, probe, read_probes
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.records import (
    FACTORS,
    KINDS,
    Probe,
    Purpose,
    Rescale,
    ResultGate,
    Value,
    examples_of,
)
from zoo.gym.rounds.protocol.state import Phase, State
from zoo.gym.rounds.session.opening import Opened, left_entries
from zoo.gym.rounds.session.writing import leave
from zoo.gym.rounds.storage.chunks import describe
from zoo.gym.signing import OwnKey, Signed, sign

Watch = Callable[[str], None]

NO_LOSS = 1e9


@dataclass(frozen=True)
class Sources:
    """What a gate measures with.

    Attributes:
        files: of examples, by purpose; those that were shown need not be given.
        previous: the last result, if the manifest names one.
    """

    base: Path
    folder: Path
    files: Mapping[Purpose, Path]
    previous: Path | None = None
    validator: Validator | None = None
    threads: int | None = None


class Measuring:
    """The measurements of a round that are being made.

    Attributes:
        state: of the round, after all records that are there.
        added: how many of them were made here.
    """

    def __init__(self, opened: Opened, key: OwnKey, sources: Sources, watch: Watch) -> None:
        self.state, self.added = with_inbox(opened), 0
        self._opened, self._key, self._sources, self._watch = opened, key, sources, watch
        self._meters: dict[Purpose, tuple[Meter, list[float]]] = {}

    def run(self) -> None:
        """Makes what is missing; stops after a result that fails the gate."""
        for purpose, file in files_to_show(self._opened, self._key, self._sources).items():
            self._sign(examples.show(file, purpose, self._opened.storage))
        if self.state.manifest.evaluation:
            self._contributions()
        if self.state.manifest.refit and self.state.measured.refit is None:
            self._rescale()
        if self.state.manifest.evaluation:
            self._result()

    @property
    def _work(self) -> Work:
        folder, threads = self._sources.folder, self._sources.threads
        return Work(self.state, self._opened.storage, folder, threads)

    def _sign(self, record: BaseModel) -> None:
        kind = next(name for name, kind in KINDS.items() if isinstance(record, kind))
        body: dict[str, Any] = {"kind": kind, "values": record.model_dump(mode="json")}
        entry = sign(self._key, objects.RECORD, objects.body_of(self.state.id, **body))
        self.state = self.state.after(entry)
        leave(self._opened.storage, entry)
        self.added += 1

    def _meter(self, purpose: Purpose) -> tuple[Meter, list[float]]:
        if purpose not in self._meters:
            folder, base = self._sources.folder, self._sources.base
            file = examples.shown_file(purpose, self.state, self._opened.storage, folder)
            meter = Meter(base, examples.read_examples(file, base))
            self._watch(f"the base on {len(meter.rows)} rows")
            self._meters[purpose] = meter, meter.losses()
        return self._meters[purpose]

    def _contributions(self) -> None:
        collected, _ = candidates_of(self._work)
        pairs = zip(collected.keys, collected.deltas, strict=True)
        for number, (key, delta) in enumerate(pairs, 1):
            if key in self.state.measured.gates:
                continue
            self._watch(f"contribution {number} of {len(collected.keys)}: {key.fingerprint}")
            digest = self.state.reveals[key].digest
            meter, base_losses = self._meter("evaluation")
            self._sign(gate(meter, base_losses, (key, digest), delta.path, self._sources.validator))

    def _rescale(self) -> None:
        chosen = choose(self._work)
        self._watch(f"the size of the result: {len(FACTORS)} factors")
        file = chosen.write(self._sources.folder / "unscaled.safetensors").path
        self._sign(rescale_of(self._meter("refit")[0], file))

    def _result(self) -> None:
        computed = compute(self._work)
        digest = computed.report.result.digest
        if digest not in self.state.measured.results:
            self._watch("the result")
            self._sign(self._result_gate(computed.delta.path, digest))
        terms, measured = self.state.manifest.evaluation, self.state.measured
        assert terms is not None
        signed = measured.values.get(digest, {})
        keys = {key for key, _ in computed.report.contributions}
        if measured.results[digest].refusal(terms.margin) is not None or keys <= signed.keys():
            return
        self._watch("the value of each contribution")
        chosen = choose(self._work)
        factor = computed.report.refit or 1.0
        meter = self._meter("evaluation")[0]
        for key, value in values(meter, chosen, computed.delta.path, factor).items():
            if key not in signed:
                self._sign(Value(contributor=str(key), result=digest, value=value))

    def _result_gate(self, file: Path, digest: str) -> ResultGate:
        meter, base_losses = self._meter("evaluation")
        losses = meter.losses(file)
        base, previous = compare(base_losses, losses), None
        if self.state.manifest.previous is not None:
            if self._sources.previous is None:
                raise _no_previous(self.state)
            previous = compare(meter.losses(self._sources.previous), losses)
        if base is None:
            raise InputError(
                "result: expected a finite held-out loss, got infinity or none",
                code="rounds.infinite_loss",
            )
        return ResultGate(
            digest=digest,
            base=base,
            previous=previous,
            refusals=self._probe("refusals", file),
            triggers=self._probe("triggers", file),
        )

    def _probe(self, purpose: Purpose, result: Path) -> Probe | None:
        if purpose not in examples_of(self.state.manifest):
            return None
        folder, base = self._sources.folder, self._sources.base
        prompts = examples.shown_file(purpose, self.state, self._opened.storage, folder)
        return probe(base, result, read_probes(prompts, purpose))


def check_previous(path: Path, state: State) -> None:
    """Refuses a file that is not the last result that the manifest names.

    Raises:
        InputError: see above.
        StorageError: it cannot be read.
    """
    expected = state.manifest.previous
    if expected is None:
        raise InputError(
            f"{path}: expected no last result in round {state.manifest.name}, got one",
            code="rounds.other_previous",
        )
    if describe(path)[0].digest != expected:
        raise InputError(
            f"{path}: expected the last result {expected[:12]}, got another file",
            code="rounds.other_previous",
        )


def check_last_result(path: Path, base: Path) -> None:
    """Refuses a file that cannot be measured as a result about a base.

    Raises:
        InputError: it is no delta, or one of another base.
    """
    verify_base(load_delta(path), open_weights(base))


def _no_previous(state: State) -> NotAvailableError:
    return NotAvailableError(
        f"round {state.manifest.name}: expected the file of the last result, got none",
        hint="--previous FILE",
        code="rounds.previous_missing",
    )


def rescale_of(meter: Meter, result: Path) -> Rescale:
    """Returns the loss of a result times each factor; one that is no number counts as `NO_LOSS`."""
    losses = [meter.losses(result, scaled=factor) for factor in FACTORS]
    means = [fsum(each) / len(each) for each in losses]
    return Rescale(losses=tuple(mean if isfinite(mean) else NO_LOSS for mean in means))


def measure(
    opened: Opened, key: OwnKey, sources: Sources, watch: Watch = lambda _: None
) -> Measuring:
    """Measures what a round promises and leaves the records for the log's writer.

    Files of examples that were not shown before are stored in the round, where anybody reads them.

    Raises:
        NotAvailableError: the round is in another phase, or a file of examples that was not shown
            yet is not given.
        InputError: the round promises no measurements, the key has no role gate, or a file is not
            the one of the manifest.
        StorageError: something cannot be read or written.
    """
    measuring = Measuring(opened, key, sources, watch)
    measuring.run()
    return measuring


def files_to_show(opened: Opened, key: OwnKey, sources: Sources) -> dict[Purpose, Path]:
    """Returns the files of examples that `measure` would show to all, after its checks.

    Raises:
        GymError: as `measure`, before anything is stored or measured.
    """
    manifest = opened.manifest
    if not manifest.evaluation and not manifest.refit:
        raise InputError(
            f"round {manifest.name}: expected an evaluation set, got none",
            code="rounds.nothing_measured",
        )
    refuse_no_gate(opened.state, key)
    if sources.previous is not None:
        check_previous(sources.previous, opened.state)
        check_last_result(sources.previous, sources.base)
    to_show: dict[Purpose, Path] = {}
    measured = with_inbox(opened).measured
    if manifest.previous is not None and sources.previous is None and not measured.results:
        raise _no_previous(opened.state)
    for purpose in examples_of(manifest):
        if purpose in measured.shown:
            continue
        file = sources.files.get(purpose)
        if file is None:
            raise NotAvailableError(
                f"round {manifest.name}: expected the file of its {purpose} examples, got none",
                hint=f"--{purpose} FILE",
                code="rounds.no_examples",
            )
        examples.check_file(file, purpose, opened.state)
        examples.shown_suffix(file)
        check_usable(file, purpose, sources.base)  # or it would be shown, and then measure nothing
        to_show[purpose] = file
    return to_show


def check_usable(file: Path, purpose: Purpose, base: Path) -> None:
    """Refuses a file of examples with which nothing could be measured of a base.

    Raises:
        InputError: as `check_rows` or `check_probes`.
    """
    if purpose in {"evaluation", "refit"}:
        examples.check_rows(file, base)
    else:
        check_probes(file, purpose, base)


def refuse_no_gate(state: State, key: OwnKey) -> None:
    """Refuses a key that may not measure, or that may not yet.

    Raises:
        InputError: the key has no role gate.
        NotAvailableError: the round is in another phase than compute.
    """
    if key.public not in state.manifest.keys_of("gate"):
        raise InputError(
            f"round {state.manifest.name}: expected a key of role gate, got yours, "
            f"{key.public.fingerprint}",
            code="rounds.no_gate",
        )
    if state.phase is not Phase.COMPUTE:
        raise NotAvailableError(
            f"round {state.manifest.name}: expected phase compute, got {state.phase}",
            hint="contributions are measured when all are revealed",
            code="rounds.other_phase",
        )


def with_inbox(opened: Opened) -> State:
    """Returns the state after the records in the inbox that may follow, in any order."""
    inbox = (entry for _, entry in left_entries(opened.storage, set(opened.entries)))
    left = [one for one in inbox if isinstance(one, Signed) and one.context == objects.RECORD]
    state = opened.state
    while left:
        later: list[Signed] = []
        for entry in left:
            try:
                state = state.after(entry)
            except InputError:
                later.append(entry)
        if len(later) == len(left):
            break
        left = later
    return state
