"""Rounds about weights: fine-tunes of a base, combined by a rule that anybody can repeat."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from zoo.gym.errors import InputError
from zoo.gym.humanize import counted, human_bytes
from zoo.gym.rounds.kind import (
    Choices,
    Fields,
    FineTune,
    Kind,
    Prints,
    Request,
    Result,
    Shown,
    listed,
)
from zoo.gym.rounds.rules.method import AggregationMethod, takes_f

if TYPE_CHECKING:
    from zoo.gym.rounds.compute.aggregate import Computed
    from zoo.gym.rounds.compute.result import Report
    from zoo.gym.rounds.compute.verify import Check
    from zoo.gym.rounds.privacy.contribution import Written
    from zoo.gym.rounds.protocol.manifest import Form, Manifest, Tensor
    from zoo.gym.rounds.protocol.records import Measured
    from zoo.gym.rounds.protocol.state import State
    from zoo.gym.rounds.session.contributing import Prepared
    from zoo.gym.rounds.session.opening import Opened
    from zoo.gym.rounds.storage.chunks import StoredFile
    from zoo.gym.signing import OwnKey, PublicKey, Signed

MOST_PARAMETERS = 1 << 42

LEFT_OUT = "left out by the rule"

_HERE = "a round about weights"
_OF_LESSONS: Mapping[str, str] = dict.fromkeys(("least", "clear", "most", "items"), _HERE)
_MEASURING = ("tasks", "model", "measured", "reward", "draws", "temperature")
_CAPS = ("max_new_tokens", "max_usd", "max_tokens")


class OfWeights(Kind[FineTune, Result]):
    """What rounds about weights have in common, whether a rule or noise decides."""

    def check(self, manifest: "Manifest") -> None:
        """Refuses terms of lessons, and tensors, rules and measurements that cannot be."""
        if manifest.lessons is not None:
            raise ValueError("lessons: expected null in a round of kind delta, got terms")
        if manifest.form == "lessons":
            raise ValueError("form: expected signs, lowrank or float in a round of kind delta")
        _check_tensors(manifest.tensors, manifest.form)
        _check_rule(manifest)
        _check_measurements(manifest)

    def contribute(
        self, opened: "Opened", request: Request, key: "OwnKey", out: Prints
    ) -> "tuple[Prepared, Signed, Fields]":
        """Codes a fine-tune, and says what the form keeps of it."""
        from zoo.gym.rounds.contribution.write import kept_of_adapter
        from zoo.gym.rounds.session.contributing import check_examples, prepare

        manifest = opened.manifest
        claimed = check_examples(manifest, request.examples, "--examples")
        base, source = request.base().folder, request.fine_tune()
        prepared, entry = prepare(opened, source, base, key, examples=claimed)
        out.answer(f"{prepared.file}: {human_bytes(prepared.bytes)}, coded as {manifest.form}")
        share = kept_of_adapter(source, base, manifest)
        if share is not None:
            part = f"{share:.0%} of this adapter's change (of its squared norm)"
            out.say(f"note: form signs keeps {part}")
            out.say(
                "its result may be much worse; a round of form lowrank takes adapters as they are"
            )
        if claimed:
            out.answer(f"weighed by {claimed} examples: as you say, nobody can check it")
        return prepared, entry, {}

    def apply(self, opened: "Opened", request: Request, out: Prints) -> Fields:
        """Writes base plus result as a model to train on."""
        from zoo.gym.rounds.compute.applying import apply_result

        model = request.base()
        applied = apply_result(opened, model.folder, threads=request.threads)
        summary = f"{model.id} plus result {applied.digest[:12]} is {applied.file}"
        self._say_verified(summary, opened, out)
        if applied.previous:
            previous = f"before it {applied.previous[:12]} was applied"
            out.answer(f"{previous}: zoo-gym round undo goes back")
        out.say(f"train on it: zoo-gym train model_name_or_path={applied.file} dataset=FILE")
        out.say(f"chat with it: zoo-gym chat --model {applied.file}")
        return {"file": str(applied.file), "digest": applied.digest, "previous": applied.previous}

    def _say_verified(self, summary: str, opened: "Opened", out: Prints) -> None:
        del opened
        out.answer(f"verified; {summary}")

    def is_measured(self, state: "State") -> bool:
        """Returns whether all that the terms name was measured.

        A result is measured after all contributions that are no copies and can be read.
        """
        measured, manifest = state.measured, state.manifest
        if manifest.refit and measured.refit is None:
            return False
        if manifest.evaluation is None:
            return True
        failed = [gate.refusal(manifest.evaluation.margin) for gate in measured.results.values()]
        return any(failed) or bool(measured.values if manifest.pool else measured.results)

    def measure_options(self, manifest: "Manifest", measured: "Measured") -> str:
        """Returns the options for the files that are not shown yet."""
        from zoo.gym.rounds.protocol.records import examples_of

        needed = [name for name in examples_of(manifest) if name not in measured.shown]
        words = [f"--{purpose} FILE" for purpose in needed]
        if manifest.previous is not None and not measured.results:
            words.append("--previous FILE")
        if manifest.evaluation and manifest.evaluation.validator:
            words.append(f"--validator {manifest.evaluation.validator}")
        return " ".join([*words, "--send"])

    def rule(self, manifest: "Manifest") -> str:
        """Returns rule, form and number of tensors."""
        claims = manifest.method == AggregationMethod.FEDERATED_AVERAGE
        weighing = " by the examples that contributors say they have" if claims else ""
        tensors = counted(len(manifest.tensors), "tensor")
        return f"{manifest.method}{weighing}, form {manifest.form}, {tensors}"


class WeightsRound(OfWeights["Computed"]):
    """A round in which a rule decides what counts of public contributions."""

    without_effect: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "create": _OF_LESSONS,
        "measure": dict.fromkeys(_MEASURING + _CAPS, _HERE),
        "aggregate": {"force": "a round that is neither private nor of lessons"},
        "apply": {"name": _HERE},
    }

    def code(self, manifest: "Manifest", source: FineTune, out: Path) -> "Written | None":
        """Writes the changes in the round's form."""
        from zoo.gym.rounds.contribution.write import write_contribution

        write_contribution(source.source, source.base, manifest, out)
        return None

    def check_file(self, path: Path, manifest: "Manifest") -> None:
        """Refuses a delta that is not as the terms say."""
        from zoo.gym.rounds.contribution.check import open_contribution

        open_contribution(path, manifest)

    def publish(self, opened: "Opened", key: "OwnKey", choices: Choices) -> "Computed":
        """Computes the result here or on a cluster of Ray, and publishes it."""
        from zoo.gym.rounds.compute.on_ray import dividing_on_ray
        from zoo.gym.rounds.compute.publish import publish

        dividing, threads, void = None, choices.threads, choices.void
        if choices.cluster is not None:
            address = opened.storage.address
            dividing = partial(
                dividing_on_ray, cluster=choices.cluster, address=address, threads=threads
            )
        return publish(
            opened.storage, key, threads=threads, dividing=dividing, void=void, least=choices.least
        )

    def show(self, result: "Computed", opened: "Opened", out: Prints) -> Shown:
        """Prints the result, who was refused or left out, and what to know of it."""
        from zoo.gym.rounds.measure.probes import probe_lines
        from zoo.gym.rounds.session.opening import open_round

        report = result.report
        gated = opened.manifest.evaluation is not None  # records are taken with the result
        taken = open_round(opened.storage).state if gated else opened.state
        measured = taken.measured.results.get(report.result.digest)
        lines = [] if report.refit is None else [f"re-fit: the change times {report.refit:g}"]
        lines += [] if measured is None else probe_lines(measured)
        weights = report.weights or [1.0] * len(report.contributions)
        keys = [key for key, _ in report.contributions]
        pairs = zip(keys, weights, strict=True)
        fields = show_delta(
            out,
            result.delta.path,
            report.result,
            rule=report.rule,
            count=len(keys),
            withstands=f" with f = {report.rule['f']}",
            lines=lines,
            refused=report.refused,
            left_out=[key for key, part in pairs if part == 0 and key not in report.refused],
            warnings=_warnings(report, taken),
        )
        if report.weights is not None:
            fields["weights"] = dict(zip(map(str, keys), report.weights, strict=True))
        return {**fields, "refit": report.refit}, None

    def checks(self, opened: "Opened", folder: Path, threads: int | None) -> "Iterator[Check]":
        """Yields the comparison with what is computed again."""
        from zoo.gym.rounds.compute.verify import computed_again

        return computed_again(opened, folder, threads)

    def void_check(self, opened: "Opened", folder: Path, threads: int | None) -> "Check | None":
        """Returns whether the result fails the gate, if one was measured to."""
        from zoo.gym.rounds.compute.verify import failed_gate

        return failed_gate(opened, folder, threads)

    def rewards(self, opened: "Opened", folder: Path) -> tuple[str, Mapping[str, int]]:
        """Returns the parts by what was measured, or by weight."""
        from zoo.gym.rounds.compute.aggregate import compute
        from zoo.gym.rounds.compute.collect import Work
        from zoo.gym.rounds.compute.publish import refuse_other_result

        report = compute(Work(opened.state, opened.storage, folder)).report
        refuse_other_result(opened.state, report.result.digest)
        return report.paid_by, {str(key): points for key, points in report.points.items()}

    def guards(self, manifest: "Manifest") -> str | None:
        """Returns what the gate measures, and the cap on newcomers."""
        return f"{_gate(manifest)}; {_cap(manifest)}"

    def weakness(self, manifest: "Manifest") -> str | None:
        """Returns that a robust rule withstands nobody with the fewest contributors."""
        if manifest.f is not None:
            return None
        count = manifest.quorum
        rule = manifest.rule(count)
        if rule.f or not (takes_f(rule.method) or rule.mixes):
            return None
        needed = next(more for more in range(count, count + 100) if manifest.rule(more).f)
        return (
            f"with {count} contributors, the fewest of this round, {rule.method.value} withstands "
            f"no malicious one; with {needed} it withstands one"
        )

    def training(self, manifest: "Manifest") -> dict[str, object]:
        """Refuses to fix settings of a run."""
        raise InputError(
            f"round: expected a private round, got {manifest.name}, whose contributions can be "
            "trained with any settings",
            hint=f"leave it out, and then: zoo-gym round contribute last --round {manifest.name}",
            code="rounds.not_private",
        )


def show_delta(
    out: Prints,
    file: Path,
    result: "StoredFile",
    *,
    rule: Mapping[str, Any],
    count: int,
    withstands: str = "",
    lines: Sequence[str],
    refused: "Mapping[PublicKey, str]",
    left_out: "Sequence[PublicKey]" = (),
    warnings: Sequence[str],
) -> dict[str, object]:
    """Prints a result that is a delta, and returns it for programs.

    Args:
        count: how many contributions it is made of.
    """
    what = f"{counted(count, 'contribution')}, {rule['method']}{withstands}"
    out.answer(f"result {result.digest[:12]}, {human_bytes(result.bytes)}: {what}")
    for line in lines:
        out.answer(line)
    for key, reason in refused.items():
        out.answer(f"refused {key.fingerprint}: {reason}")
    for key in left_out:
        out.answer(f"{LEFT_OUT}, weight 0: {key.fingerprint}")
    out.answer(f"the result is a delta: zoo-gym delta apply {file}")
    for warning in warnings:
        out.say(f"note: {warning}")
    return {
        "result": str(file),
        "digest": result.digest,
        "rule": rule["method"],
        "f": rule["f"],
        "weights": None,
        "refused": listed(refused),
        "refit": None,
        "warnings": list(warnings),
    }


def _warnings(report: "Report", state: "State") -> list[str]:
    from zoo.gym.rounds.compute.aggregate import worse_than_one
    from zoo.gym.rounds.compute.eligibility import fill_quorum
    from zoo.gym.rounds.measure.probes import probe_warnings

    warnings = [] if report.rule["f"] else ["the rule withstands no malicious contributor"]
    if report.rule["method"] == AggregationMethod.FEDERATED_AVERAGE:
        warnings.append("contributors are weighed by the numbers of examples that they name")
    if report.newcomers is None:
        warnings.append("all keys are new: there is no cap on newcomers")
    if fill_quorum(report, state.manifest):
        warnings.append("newcomers fill up the quorum: they have more than their share of seats")
    worse = worse_than_one(state, report)
    warnings += [worse] if worse else []
    measured = state.measured.results.get(report.result.digest)
    return warnings if measured is None else [*warnings, *probe_warnings(measured)]


def _gate(manifest: "Manifest") -> str:
    if not (gates := len(manifest.keys_of("gate"))):
        return "no gate"
    terms, parts = manifest.evaluation, list[str]()
    if terms is not None:
        parts.append(f"held-out rows ({human_bytes(terms.bytes)})")
        named = {"refusals": terms.refusals, "triggers": terms.triggers}
        parts += [name for name, digest in named.items() if digest]
        parts += [f"validator {terms.validator}"] if terms.validator else []
    parts += ["the last result"] if manifest.previous else []
    parts += ["a re-fit"] if manifest.refit else []
    return f"gate of {counted(gates, 'key')}: {', '.join(parts)}"


def _cap(manifest: "Manifest") -> str:
    terms = manifest.newcomers
    if terms is None:
        return "no cap on newcomers"
    rounds = counted(terms.rounds, "accepted round")
    return f"{terms.share:.0%} at most for newcomers, with fewer than {rounds}"


def _check_tensors(tensors: "tuple[Tensor, ...]", form: "Form") -> None:
    names = [tensor.name for tensor in tensors]
    if not names:
        raise ValueError("tensors: expected at least one, got none")
    if names != sorted(set(names)):
        raise ValueError("tensors: expected names in order, each once")
    for tensor in tensors:
        if not tensor.shape or min(tensor.shape) < 1 or len(tensor.shape) > 8:
            raise ValueError(f"tensor {tensor.name}: expected positive lengths")
        if form != "float" and len(tensor.shape) != 2:
            raise ValueError(f"tensor {tensor.name}: expected a matrix in form {form}")
    if sum(tensor.size for tensor in tensors) > MOST_PARAMETERS:
        raise ValueError(f"tensors: expected at most {MOST_PARAMETERS} values")


def _check_rule(manifest: "Manifest") -> None:
    if manifest.method not in set(AggregationMethod):
        raise ValueError(f"method: expected one of {', '.join(AggregationMethod)}")
    if manifest.method == AggregationMethod.WEIGHTED_MEAN and manifest.newcomers is None:
        raise ValueError("method: expected standings for weighted_mean, got none")
    if manifest.method == AggregationMethod.KRUM and manifest.newcomers is not None:
        raise ValueError(
            "method: expected another one than krum with a cap on newcomers: it takes one "
            "contribution, which may be a newcomer's"
        )
    if manifest.method == AggregationMethod.MAJORITY and manifest.form != "signs":
        raise ValueError(f"method: expected form signs for majority, got {manifest.form}")
    try:
        manifest.rule(manifest.quorum)
    except InputError as error:
        raise ValueError(f"quorum: {error.message}") from None


def _check_measurements(manifest: "Manifest") -> None:
    if manifest.previous is not None and manifest.evaluation is None:
        raise ValueError("previous: expected an evaluation set to compare with it, got none")
    measured = manifest.evaluation is not None or manifest.refit is not None
    if measured and not manifest.keys_of("gate"):
        raise ValueError("keys: expected one of role gate, which measures, got none")
    if manifest.evaluation is not None and manifest.refit == manifest.evaluation.digest:
        raise ValueError("refit: expected other examples than those held out, got the same")
