"""The README.md of an imported model: where it is from and what its weights were."""

from zoo.models.gguf.parts import Source
from zoo.models.gguf.weights import TORCH_NAMES, Dtype

_BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "TQ1_0": 2, "TQ2_0": 2}


def main_type(source: Source) -> str:
    """Returns the ggml type of most weights."""
    counts: dict[str, int] = {}
    for _, tensor in source.tensors.values():
        count = 1
        for size in tensor.shape:
            count *= size
        counts[tensor.type] = counts.get(tensor.type, 0) + count
    return max(counts, key=lambda kind: counts[kind])


def bits_of(kind: str) -> int:
    """Returns the bits of a weight's code of a ggml type, its scales left out."""
    digits = "".join(letter for letter in kind.lstrip("IQT").split("_")[0] if letter.isdigit())
    return _BITS.get(kind) or int(digits or 4)


def widening(source: Source, dtype: Dtype) -> str:
    """Returns one sentence on what the weights were and what they are now."""
    kind, now = main_type(source), TORCH_NAMES[dtype]
    if kind == dtype:
        return f"weights are {now}, as in the file"
    return f"weights had {bits_of(kind)} bits ({kind}), widened to {now}"


def write_card(source: Source, sha256: str, dtype: Dtype, *, has_template: bool) -> str:
    """Returns the text of the card."""
    import yaml

    licence = _line(source, "general.license")
    head = {"license": licence} if licence and " " not in licence else {}
    head |= {"library_name": "transformers", "pipeline_tag": "text-generation"}
    types = ", ".join(f"{count} {kind}" for kind, count in source.type_counts().items())
    rows = {
        "file": f"`{_plain(source.path.name)}`",
        "parts": str(len(source.parts)),
        "sha256": sha256,
        "tensors": types,
        "licence": licence or "not in the file",
        "chat template": "from the file" if has_template else "no chat template",
    }
    for key, name in (("general.name", "name"), ("general.organization", "organization")):
        if text := _line(source, key):
            rows[name] = text
    table = "\n".join(f"| {name} | {text} |" for name, text in rows.items())
    return "\n".join(
        [
            "---",
            f"{yaml.safe_dump(head, sort_keys=False, allow_unicode=True)}---",
            "# Imported from a GGUF file",
            "",
            f"W{widening(source, dtype).removeprefix('w')}.",
            "",
            "| | |",
            "|---|---|",
            table,
            "",
        ]
    )


def _line(source: Source, key: str) -> str:
    """Returns a text of the header as one harmless line, empty for a value of another type."""
    text = source.metadata.values.get(key)
    return _plain(text) if isinstance(text, str) else ""


def _plain(text: str) -> str:
    """Returns a text as one harmless line of a table."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(plain.replace("|", "/").replace("`", "'").split())[:100]
