"""Creates a delta from a fine-tune (a LoRA adapter or full weights) and its base.

It works tensor by tensor on views of the files, so little more than one coded tensor is in memory.
The base is hashed in the same pass.
"""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from zoo.gym.arguments import StrPath, instance_of, model_folder, path_of, text_of
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.data.own_tokenizer import TOKENIZER_KEY, own_parts
from zoo.gym.delta.changes import adapter_names, encode_factors, encode_weight, weight_names
from zoo.gym.delta.codecs.options import (
    Coding,
    LowRank,
    choose_coding,
    choose_layer_codings,
    form_of,
)
from zoo.gym.delta.codecs.tensor import Encoded
from zoo.gym.delta.distilled import Distilled, replace_trained
from zoo.gym.delta.file.header import (
    WHOLE_BASE_KEY,
    Base,
    DeltaHeader,
    Form,
    Quality,
    WholeBase,
    measured_header,
)
from zoo.gym.delta.file.reader import Delta, is_delta, load_delta, refuse_delta
from zoo.gym.delta.file.refusals import REFUSALS_KEY, Refusals
from zoo.gym.delta.file.terms import TensorTerms
from zoo.gym.delta.file.writer import Spool, named_last, replace_header, write_delta
from zoo.gym.delta.origin.digests import BASE_KEY, form_in
from zoo.gym.delta.origin.record import (
    DIGEST_KEY,
    JOINT_KEY,
    ORIGIN_FILE,
    joint_of,
    trained_bits,
)
from zoo.gym.delta.progress import Watch, ignore, passing
from zoo.gym.delta.quality import QualityInput, check_other, measure_quality, rows_digest
from zoo.gym.delta.reading.adapter import Adapter, is_adapter, read_adapter, read_factors
from zoo.gym.delta.reading.identity import IdentityHasher, base_name, check_named_base, whole_base
from zoo.gym.delta.reading.parents import parents_of
from zoo.gym.delta.reading.prefetch import reading_ahead
from zoo.gym.delta.reading.weights import Weights, named_as, open_weights
from zoo.gym.delta.refusals import RefusalCounter, measure_refusals
from zoo.gym.delta.safety_gate import require_refusals, threshold_of
from zoo.gym.delta.sanity import warn_of_other_base, warn_of_worse_delta
from zoo.gym.delta.zeros import Masked, masked
from zoo.gym.errors import InputError
from zoo.gym.files import read_json_object
from zoo.gym.refusals import Unmeasured
from zoo.gym.terminal import one_line
from zoo.models.adapters import CONFIG_FILE
from zoo.models.folder import is_reward_model, rope_scaling


@dataclass(frozen=True)
class Origin:
    """The origin of a fine-tune, as stored in the delta's header.

    Attributes:
        recipe: the settings of its training.
        seed: the seed of its run.
        data: the fingerprint of its training data, 64 hex characters.
    """

    recipe: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    seed: int | None = None
    data: str | None = None


@dataclass(frozen=True)
class DeltaReport:
    """What `create_delta` wrote.

    Attributes:
        file: the delta file.
        file_bytes: its size.
        payload_bytes: its size without the header.
        form: `lowrank` or `dense`.
        tensors: the number of base tensors that it changes.
        quality: its quality on held-out examples, None if it was not measured.
        masked: the tensors whose zeros are kept by a mask, None if there are none.
        held_out: whether the examples were held out; None if that is not known.
        distilled: how it was trained after it was coded; None if it was not.
        refusals: what base, fine-tune and delta refuse; None if that was not measured.
        no_refusals: why it could not be measured; None if it was, or quality was not measured.
    """

    file: Path
    file_bytes: int
    payload_bytes: int
    form: Form
    tensors: int
    quality: Quality | None
    masked: Masked | None = None
    held_out: bool | None = None
    distilled: Distilled | None = None
    refusals: Refusals | None = None
    no_refusals: Unmeasured | None = None

    def as_json(self) -> dict[str, Any]:
        """Returns the report as the command prints it: file, bytes, form, quality."""
        quality: dict[str, Any] | None = None
        if self.quality is not None:
            quality = self.quality.content() | {"held_out": self.held_out}
        return {
            "file": str(self.file),
            "bytes": self.file_bytes,
            "form": self.form,
            "quality": quality,
            "distilled": None if self.distilled is None else self.distilled.as_json(),
            "refusals": None if self.refusals is None else self.refusals.as_json(),
        }


def create_delta(
    source: StrPath,
    *,
    base: StrPath,
    base_id: str | None = None,
    base_revision: str | None = None,
    out: StrPath,
    config: DeltaConfig | None = None,
    layers: Mapping[str, DeltaConfig] | None = None,
    origin: Origin | None = None,
    quality: QualityInput | None = None,
    force: bool = False,
    distill: Callable[[Path], Distilled] | None = None,
    safety_threshold: float | None = None,
    watch: Watch = ignore,
) -> DeltaReport:
    """Writes the delta between a base and a fine-tune of it.

    A new file is written before its quality is measured: a failed measurement loses nothing. With a
    safety threshold, a training or an older file it gets its name last, after the measurements:
    until then there is no file, or the older one.

    Args:
        source: a peft LoRA folder, a full-model folder, or a safetensors file of either kind.
        base: the base's model folder, or the name of a model on this machine.
        base_id: the name of the base in the header and in error messages; by default its known
            name, or else that of the folder.
        base_revision: its revision.
        out: the file to write.
        config: how the delta is coded; by default `DeltaConfig()`. Without bits or a codec, an
            adapter that was trained in few bits keeps these.
        layers: how some matrices are coded instead, by their names in the base, with or without
            `.weight`, or by patterns such as `*.down_proj`; the first that fits counts.
        origin: recipe, seed and data fingerprint of the fine-tune.
        quality: the examples to measure the delta on, as `quality_input` returns them; None does
            not measure it.
        force: replace an existing delta; any other file is never replaced.
        distill: trains the delta that was written: a function, see
            `zoo.gym.published.distilled.distill_delta`.
        safety_threshold: the share, 0 to 1, of the harmful prompts refused by the base that the
            delta must refuse; refusals need no `quality`. None measures them with the quality and
            requires nothing.
        watch: called with the progress after each tensor.

    Raises:
        NotAvailableError: the source or the base is missing.
        InputError: an argument has the wrong type, `out` exists, the source is a delta, the base's
            name contains control characters, source and base do not match, a value is not finite,
            nothing changed, the form is impossible for this source, it has no such layer, or the
            delta refuses too few prompts.
        StorageError: the file cannot be written.

    Warns:
        GymWarning: the adapter was made for another base, the delta is worse than its base, or the
            safety threshold is low or cannot be measured.
    """
    source, out = path_of("source", source), path_of("out", out)
    base_id = None if base_id is None else text_of("base_id", base_id)
    base_revision = None if base_revision is None else text_of("base_revision", base_revision)
    config = instance_of("config", DeltaConfig() if config is None else config, DeltaConfig)
    origin = instance_of("origin", Origin() if origin is None else origin, Origin)
    quality = None if quality is None else instance_of("quality", quality, QualityInput)
    force = instance_of("force", force, bool)
    _check_distill(distill)
    threshold = None if safety_threshold is None else threshold_of(safety_threshold)
    base = model_folder("base", base)
    base_id, base_revision = base_name(base, base_id, base_revision)
    refuse_delta(source)
    _refuse_reward_model(source)
    _refuse_name(base_id, base_revision)
    from_adapter = is_adapter(source)
    if from_adapter and config.bits is None and config.codec == "auto":
        config = config.model_copy(update={"bits": trained_bits(source)})
    coding = choose_coding(config, from_adapter=from_adapter)
    base_weights, parents = open_weights(base), parents_of(base)
    refuse_other_positions(source, base)
    check_other(quality, base_weights, out)
    adapter = _adapter_for(source, base_weights, config.rank) if from_adapter else None
    tuned_weights = adapter.weights if adapter else named_as(open_weights(source), base_weights)
    _refuse_overwriting(out, base_weights, tuned_weights, force=force)
    names = (
        weight_names(base_weights, tuned_weights)
        if adapter is None
        else adapter_names(adapter, base_weights)
    )
    codings = _layer_codings(layers or {}, names, base_weights, adapter)
    sizes = {name: _bytes_of(name, base_weights, adapter, tuned_weights) for name in names}
    last = threshold is not None or distill is not None or out.exists()
    with named_last(out, last=last) as file:
        with (
            Spool(out.parent) as spool,
            closing(reading_ahead(sizes, base_weights, tuned_weights)) as ahead,
        ):
            hasher = IdentityHasher(base_weights)
            tensors = spool.tensors
            for name, _ in zip(passing(sizes, watch), ahead, strict=True):
                change = _encode(
                    adapter, base_weights, tuned_weights, name, codings.get(name, coding)
                )
                if change is not None:
                    spool.add_tensor(change)
                    hasher.add(name)
            if not tensors:
                raise InputError(
                    f"{source}: expected a fine-tune, got no change from the base {base}",
                    code="delta.no_change",
                )
            rest = whole_base(base_weights, [tensor.name for tensor in tensors])
            base_info = Base(identity=hasher.finish(), id=base_id, revision=base_revision)
            check_named_base(base_info, base_weights, [tensor.name for tensor in tensors])
            origin = _with_record(origin, source, base)
            header = _header(form_of(coding), base_info, rest, tuple(tensors), origin)
            header = header.model_copy(update={"parents": parents})
            write_delta(file, header, spool)
        report = _improved_and_measured(load_delta(file), base, source, distill, quality, threshold)
    return replace(report, file=out)


def _improved_and_measured(
    delta: Delta,
    base: Path,
    source: Path,
    distill: Callable[[Path], Distilled] | None,
    quality: QualityInput | None,
    threshold: float | None,
) -> DeltaReport:
    distilled = None if distill is None else distill(delta.path)
    refusals: Refusals | Unmeasured | None = None
    if distilled is not None and distilled.is_better:
        delta = replace_trained(delta, distilled)
    if quality is not None:
        counter = RefusalCounter(base, delta, probes=threshold is None)
        measured = measure_quality(base, source, delta, quality, visit=counter.visit)
        refusals = counter.result()
        delta = _with_refusals(delta, refusals, threshold)
        rows = rows_digest(quality.examples)
        header = measured_header(delta.header, measured, quality.held_out, rows)
        delta = replace_header(delta, header)
        warn_of_worse_delta(measured)
    elif threshold is not None:
        refusals = measure_refusals(base, source, delta, probes=False)
        delta = _with_refusals(delta, refusals, threshold)
    report = _report(delta, quality.held_out if quality else None)
    reason = refusals if isinstance(refusals, Unmeasured) else None
    return replace(report, distilled=distilled, no_refusals=reason)


def _with_refusals(delta: Delta, measured: Refusals | Unmeasured, threshold: float | None) -> Delta:
    if threshold is not None:
        require_refusals(measured, threshold)
    if isinstance(measured, Unmeasured):
        return delta
    recipe = delta.header.recipe | {REFUSALS_KEY: measured.model_dump(mode="json")}
    return replace_header(delta, delta.header.model_copy(update={"recipe": recipe}))


def _with_record(origin: Origin, source: Path, base: Path) -> Origin:
    """Returns the origin with what a result's folder records of itself, and how it is asked."""
    if not source.is_dir():
        return origin
    record = read_json_object(source / ORIGIN_FILE) or {}
    joint, own_tokens, form = joint_of(record), own_parts(base, source), form_in(record)
    recipe = ({JOINT_KEY: joint} if joint else {}) | (
        {TOKENIZER_KEY: own_tokens} if own_tokens else {}
    )
    recipe |= {BASE_KEY: form} if form else {}
    system, data = record.get(DIGEST_KEY), record.get("data")
    recipe |= {DIGEST_KEY: system} if isinstance(system, str) else {}
    fingerprint = origin.data if origin.data or not isinstance(data, str) else data
    return replace(origin, recipe={**recipe, **origin.recipe}, data=fingerprint)


def _refuse_reward_model(source: Path) -> None:
    if is_reward_model(source):
        raise InputError(
            f"{source}: expected a fine-tune of a language model, got a reward model",
            hint=f"a reward model scores answers: reward={source}",
            code="delta.reward_model",
        )


def refuse_other_positions(source: Path, base: Path) -> None:
    """Refuses a model whose config scales positions unlike the base's, which a delta leaves out."""
    if not (source / "config.json").is_file() or (source / CONFIG_FILE).is_file():
        return
    theirs, here = (rope_scaling(folder) for folder in (source, base))
    if theirs != here:
        raise InputError(
            f"{source}: expected positions as in the base, {here}, got {theirs}: a delta has only "
            "weights, and would be used with the config of the base",
            hint="share the whole folder of the model",
            code="delta.other_positions",
        )


def _report(delta: Delta, held_out: bool | None) -> DeltaReport:
    return DeltaReport(
        file=delta.path,
        file_bytes=delta.file_bytes,
        payload_bytes=delta.payload_bytes,
        form=delta.header.form,
        tensors=len(delta.header.tensors),
        quality=delta.header.quality,
        masked=masked(delta),
        held_out=held_out,
        refusals=delta.header.refusals,
    )


def _check_distill(distill: object) -> None:
    if distill is not None and not callable(distill):
        raise InputError(
            f"distill: expected a function that trains the delta, got {distill!r}",
            hint="partial(zoo.gym.published.distilled.distill_delta, base=..., tuned=...)",
            code="delta.bad_option",
        )


def _layer_codings(
    layers: Mapping[str, DeltaConfig], names: list[str], base: Weights, adapter: Adapter | None
) -> dict[str, Coding]:
    matrices = [name for name in names if len(base.shape(name)) > 1]
    codings = choose_layer_codings(layers, matrices, from_adapter=adapter is not None)
    for coding in codings.values():
        if adapter is not None and isinstance(coding, LowRank):
            adapter.require_rank(coding.rank)
    return codings


def _encode(
    adapter: Adapter | None,
    base_weights: Weights,
    tuned_weights: Weights,
    name: str,
    coding: Coding,
) -> Encoded | None:
    if isinstance(coding, LowRank):
        assert adapter is not None
        return encode_factors(name, *read_factors(adapter, name), coding)
    return encode_weight(base_weights, tuned_weights, name, coding)


def _adapter_for(source: Path, base: Weights, rank: int | None) -> Adapter:
    warn_of_other_base(source, base.source)
    adapter = read_adapter(source, base)
    adapter.require_rank(rank)
    return adapter


def _bytes_of(name: str, base: Weights, adapter: Adapter | None, tuned: Weights) -> int:
    """Returns the bytes that are read to compare a tensor."""
    if adapter is None:
        return base.nbytes(name) + tuned.nbytes(name)
    return base.nbytes(name) + sum(map(tuned.nbytes, adapter.factors[name])) // adapter.experts(
        name
    )


def _refuse_name(*names: str | None) -> None:
    for name in names:
        if name is not None and one_line(name) != name:
            raise InputError(
                f"base: expected a name without control characters, got {name!r}",
                code="delta.bad_base_name",
            )


def _refuse_overwriting(out: Path, *inputs: Weights, force: bool) -> None:
    for weights in inputs:
        if out.resolve() in {file.resolve() for file in weights.files}:
            raise InputError(
                f"output {str(out)!r}: expected a new file, got one of the inputs",
                code="delta.bad_output",
            )
    if out.is_dir():
        raise InputError(
            f"output {str(out)!r}: expected a file, got a folder", code="delta.bad_output"
        )
    if out.exists() and not is_delta(out):
        raise InputError(
            f"output {str(out)!r}: expected a new file or an older delta, got another file",
            hint="choose a file that does not exist yet",
            code="delta.bad_output",
        )
    if out.exists() and not force:
        raise InputError(
            f"output {str(out)!r}: expected a new file, got one that exists",
            hint="choose another name, or replace the delta with force=True",
            code="delta.bad_output",
        )


def _header(
    form: Form, base: Base, rest: WholeBase, tensors: tuple[TensorTerms, ...], origin: Origin
) -> DeltaHeader:
    from zoo.core import __version__

    return DeltaHeader(
        form=form,
        base=base,
        tensors=tensors,
        recipe={**origin.recipe, WHOLE_BASE_KEY: rest.model_dump()},
        seed=origin.seed,
        data=origin.data,
        privacy=None,
        tool=f"zoo-gym {__version__}",
        quality=None,
    )
