"""Measures again what the records of a round say, and compares: `round verify --measure`."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from zoo.gym.errors import InputError
from zoo.gym.rounds.compute.aggregate import Chosen, Computed, candidates_of, choose, compute
from zoo.gym.rounds.compute.collect import NoResultError, Work
from zoo.gym.rounds.compute.verify import Check, made
from zoo.gym.rounds.measure.examples import read_examples, shown_file
from zoo.gym.rounds.measure.gating import compare, gate
from zoo.gym.rounds.measure.losses import Meter, values
from zoo.gym.rounds.measure.measure import check_previous, rescale_of
from zoo.gym.rounds.measure.probes import probe, read_probes
from zoo.gym.rounds.protocol.records import FACTORS, TOLERANCE, Paired, Probe, Purpose, examples_of
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.session.opening import Opened
from zoo.gym.signing import PublicKey

LEAST = 1e-5
"""Nats a token that float32 may always be apart."""


def repeated(
    opened: Opened,
    folder: Path,
    base: Path,
    *,
    previous: Path | None = None,
    threads: int | None = None,
) -> Iterator[Check]:
    """Yields a check for each kind of figure.

    Args:
        opened: a round with measured contributions; without a measured result, as in a void round,
            only the figures of the contributions are repeated.
        previous: the last result, if the manifest names one; not compared with it if None.

    Raises:
        InputError: the round measures nothing, `previous` is not its last result, or a row or the
            base cannot be read.
        StorageError: the storage cannot be read, or a file not be written here.
    """
    state = opened.state
    work = Work(state, opened.storage, folder, threads)
    _check(state, previous)
    files: dict[str, Path] = {}
    ended = state.result is not None or bool(state.measured.results)

    def fetch_all() -> str:
        purposes = examples_of(state.manifest)
        for purpose in purposes if ended else purposes.keys() & {"evaluation"}:
            files[purpose] = shown_file(purpose, state, opened.storage, folder)
        return ", ".join(files)

    yield (check := made("files of examples", fetch_all))
    if not check.ok:
        return

    def meter(purpose: Purpose) -> Meter:
        return Meter(base, read_examples(files[purpose], base))

    held_out = meter("evaluation") if state.manifest.evaluation else None
    base_losses = held_out.losses() if held_out else []
    if held_out:  # first: forged figures may be why the round has no result
        yield from _gates(held_out, base_losses, work)
    if not ended:
        detail = f"the round is in phase {state.phase}: no result was measured"
        yield Check("measured result", detail, ok=None)
        return
    try:
        chosen = choose(work)
    except NoResultError as error:  # of a void round
        yield Check("measured result", error.message, ok=None)
        return
    if state.measured.refit:
        yield _rescale(meter("refit"), chosen)
    if held_out:
        computed = compute(work)
        yield from _result(held_out, base_losses, computed, work, previous)
        if state.result is not None:  # of a result that failed nobody earns
            yield _values(held_out, chosen, computed)


def _check(state: State, previous: Path | None) -> None:
    if not state.manifest.evaluation and not state.manifest.refit:
        raise InputError(
            f"round {state.manifest.name}: expected measurements, got a round without",
            code="rounds.nothing_measured",
        )
    if previous is not None:
        check_previous(previous, state)


def _gates(meter: Meter, base_losses: list[float], work: Work) -> Iterator[Check]:
    collected, _ = candidates_of(work)
    gates, apart = work.state.measured.gates, dict[PublicKey, float]()
    measured = [
        pair for pair in zip(collected.keys, collected.deltas, strict=True) if pair[0] in gates
    ]
    for key, delta in measured:
        repeated = gate(meter, base_losses, (key, gates[key].digest), delta.path)
        apart[key] = _apart(gates[key].loss, repeated.loss)
    name = "measured contributions"
    yield _compared(name, apart) if apart else Check(name, "none that can be read", ok=None)
    by_word = [key for key, _ in measured if gates[key].loss and gates[key].reason]
    if by_word:
        detail = f"{len(by_word)} refused by the validator's word alone"
        yield Check("validator", detail, ok=None)


def _result(
    meter: Meter, base_losses: list[float], computed: Computed, work: Work, previous: Path | None
) -> Iterator[Check]:
    signed = work.state.measured.results.get(computed.report.result.digest)
    if signed is None:
        raise InputError(
            "result: expected the one that was measured, computed another",
            code="rounds.other_result",
        )
    losses = meter.losses(computed.delta.path)
    yield _same_loss("measured result", signed.base, compare(base_losses, losses))
    if signed.previous is not None:
        name = "measured against the last result"
        if previous is None:
            yield Check(name, "its file is needed: --previous FILE", ok=None)
        else:
            repeated = compare(meter.losses(previous), losses)
            yield _same_loss(name, signed.previous, repeated)
    for purpose, counted in signed.probes.items():
        file = shown_file(purpose, work.state, work.storage, work.folder)
        again_counted = probe(meter.base, computed.delta.path, read_probes(file, purpose))
        yield same_counts(purpose, counted, again_counted)


def _values(meter: Meter, chosen: Chosen, computed: Computed) -> Check:
    worth = values(meter, chosen, computed.delta.path, computed.report.refit or 1.0)
    signed = chosen.work.state.measured.values.get(computed.report.result.digest, {})
    apart = {key: abs(worth[key] - signed.get(key, 0.0)) for key in worth}
    return _compared("values", apart, values_limit(worth.values()))


def values_limit(worth: Iterable[float]) -> float:
    """Returns the nats by which repeated values may differ: a fiftieth of the largest of them.

    A value is about the gain divided by the number of contributors, which may be less than the
    tolerance of a loss: a gate could then double one, or set it to zero.
    """
    return min(TOLERANCE, max(LEAST, max(map(abs, worth), default=0.0) / 50))


def _same_loss(name: str, signed: Paired, repeated: Paired | None) -> Check:
    apart = _apart(signed, repeated)
    return Check(name, f"{apart:.2g} nats apart", ok=apart <= TOLERANCE)


def _rescale(meter: Meter, chosen: Chosen) -> Check:
    """Accepts a signed factor if its loss is as low as that of the best one."""
    file = chosen.write(chosen.work.folder / "unscaled.safetensors").path
    signed = chosen.work.state.measured.refit
    assert signed is not None
    losses = rescale_of(meter, file).losses
    apart = max(abs(a - b) for a, b in zip(losses, signed.losses, strict=True))
    best = losses[FACTORS.index(signed.factor)] <= min(losses) + TOLERANCE
    detail = f"{signed.factor:g}, losses {apart:.2g} nats apart"
    return Check("re-fit measured", detail, ok=best and apart <= TOLERANCE)


def same_counts(purpose: Purpose, signed: Probe, repeated: Probe) -> Check:
    """Compares counts of answers, and what the gate decides by them.

    Greedy answers may part where two tokens are as likely: in one of fifty prompts, and in one of
    fewer, where that changes no decision.
    """
    apart = max(abs(signed.base - repeated.base), abs(signed.result - repeated.result))
    ok = signed.prompts == repeated.prompts and apart <= max(1, signed.prompts // 50)
    detail = f"{repeated.result} of {repeated.prompts}, {apart} apart"
    passed = signed.refusal(purpose) is None
    if passed is not (repeated.refusal(purpose) is None):
        ok = False
        words = ("fail", "pass") if passed else ("pass", "fail")
        detail += f": these counts {words[0]} the gate, the signed ones {words[1]}"
    return Check(purpose, detail, ok=ok)


def _apart(signed: Paired | None, repeated: Paired | None) -> float:
    if signed is None or repeated is None:
        return 0.0 if signed is repeated else float("inf")
    if signed.rows != repeated.rows:
        return float("inf")
    return max(abs(signed.mean - repeated.mean), abs(signed.bound - repeated.bound))


def _compared(name: str, apart: dict[PublicKey, float], limit: float = TOLERANCE) -> Check:
    worst = max(apart, key=apart.__getitem__)
    detail = f"{len(apart)} of them, {apart[worst]:.2g} nats apart at most ({worst.fingerprint})"
    return Check(name, detail, ok=apart[worst] <= limit)
