"""Formats a delta's header as JSON for programs and as a few lines for people."""

from typing import Any

from pydantic import JsonValue

from zoo.gym.delta.file.header import (
    DISTILLED_KEY,
    RECORDS,
    DeltaHeader,
    Quality,
    was_held_out,
)
from zoo.gym.delta.file.reader import Delta
from zoo.gym.delta.quality import rows_in_words
from zoo.gym.humanize import counted
from zoo.gym.terminal import one_line


def as_json(delta: Delta) -> dict[str, Any]:
    """Returns the header with digest and sizes, as `delta info --json` prints it."""
    return {
        "file": str(delta.path),
        "bytes": delta.file_bytes,
        "payload_bytes": delta.payload_bytes,
        "digest": delta.digest,
        "version": delta.header.version,
        **delta.header.content(),
    }


def as_text(delta: Delta) -> str:
    """Returns a summary of a delta for people, a few lines."""
    header = delta.header
    revision = f" at {header.base.revision}" if header.base.revision else ""
    kinds = [term.kind for tensor in header.tensors for term in tensor.terms]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
    return "\n".join(
        (
            f"file      {delta.path}",
            f"form      {header.form}: {counted(len(header.tensors), 'tensor')}, {counts} terms",
            f"size      {delta.file_bytes:,} bytes, {delta.payload_bytes:,} of them payload",
            f"base      {header.base.id}{revision} ({header.base.identity[:12]})",
            f"quality   {_quality(header.quality, was_held_out(header))}",
            *_of_version_2(header),
            *(
                f"refusals  {line}"
                for line in (header.refusals.sentences() if header.refusals else ())
            ),
            *_of_training(header.recipe.get(DISTILLED_KEY)),
            f"recipe    {counted(len(header.recipe.keys() - RECORDS), 'setting')}, seed "
            f"{header.seed}",
            f"written   by {header.tool}, digest {delta.digest[:12]}",
        )
    )


def _of_training(record: JsonValue) -> list[str]:
    """Returns a line on how a delta was trained after it was made, where it was."""
    if not isinstance(record, dict):
        return []
    private = " (private)" if record.get("private") else ""
    steps, text = (str(record.get(key)) for key in ("steps", "text"))
    return [f"trained   for {one_line(steps)} steps on {one_line(text)}{private}"]


def _of_version_2(header: DeltaHeader) -> list[str]:
    """Returns a line for the privacy record and one for the parents, where a delta has them."""
    lines: list[str] = []
    if (private := header.privacy) is not None:
        useless = "" if private.noise_to_signal <= 1 else ": more noise than signal"
        lines.append(
            f"privacy   epsilon {private.epsilon:g}, delta {private.delta:g} for each of "
            f"{private.contributors:,} contributions, by its maker: sigma {private.sigma:.4g}, "
            f"noise to signal {private.noise_to_signal:.3g}{useless}"
        )
    if header.parents:
        lines.append(f"parents   {', '.join(parent[:12] for parent in header.parents)}")
    return lines


def _quality(quality: Quality | None, held_out: bool | None) -> str:
    if quality is None:
        return "not measured"
    losses = [f"base {quality.base:.4f}"]
    if quality.tuned is not None:
        losses.append(f"tuned {quality.tuned:.4f}")
    losses.append(f"delta {quality.delta:.4f}")
    recovered = "" if quality.recovered is None else f", {quality.recovered:.1%} of the gain kept"
    rows, _, doubt = rows_in_words(quality.rows, held_out).partition("; ")
    more = "" if quality.kl is None else f", KL {quality.kl:.4f}"
    more += "" if quality.top1 is None else f", same most likely token {quality.top1:.1%}"
    more += "" if quality.drift is None else f", drift {quality.drift:+.4f}"
    if quality.kept is not None:
        more += f", kept {quality.kept} of {quality.right} general answers"
    more += "".join(f", {control.kind} {control.loss:.4f}" for control in quality.controls or ())
    where = f"on {quality.tokens:,} tokens of {rows}{recovered}{more}"
    measured = f"{', '.join(losses)} nats per token {where}" + (f"; {doubt}" if doubt else "")
    return f"measured by its maker: {measured}"
