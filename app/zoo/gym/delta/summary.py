"""Formats a delta's header as JSON for programs and as a few lines for people."""

from typing import Any

from zoo.gym.delta.file.header import Quality, was_held_out
from zoo.gym.delta.file.reader import Delta
from zoo.gym.delta.quality import rows_in_words
from zoo.gym.humanize import counted


def as_json(delta: Delta) -> dict[str, Any]:
    """Returns the header with digest and sizes, as `delta info --json` prints it."""
    return {
        "file": str(delta.path),
        "bytes": delta.file_bytes,
        "payload_bytes": delta.payload_bytes,
        "digest": delta.digest,
        **delta.header.model_dump(mode="json"),
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
            f"recipe    {counted(len(header.recipe), 'setting')}, seed {header.seed}",
            f"written   by {header.tool}, digest {delta.digest[:12]}",
        )
    )


def _quality(quality: Quality | None, held_out: bool | None) -> str:
    if quality is None:
        return "not measured"
    losses = [f"base {quality.base:.4f}"]
    if quality.tuned is not None:
        losses.append(f"tuned {quality.tuned:.4f}")
    losses.append(f"delta {quality.delta:.4f}")
    kept = "" if quality.recovered is None else f", {quality.recovered:.1%} of the gain kept"
    rows, _, doubt = rows_in_words(quality.rows, held_out).partition("; ")
    where = f"on {quality.tokens:,} tokens of {rows}{kept}"
    measured = f"{', '.join(losses)} nats per token {where}" + (f"; {doubt}" if doubt else "")
    return f"measured by its maker: {measured}"
