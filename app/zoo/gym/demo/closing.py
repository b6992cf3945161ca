"""What to do after the demo: the same job on a larger model."""

from pathlib import Path


def closing_words(folder: Path) -> list[str]:
    """Returns what to type next, with the size of zen-nano's download.

    Args:
        folder: where the demo left its deltas.
    """
    from zoo.models import registry

    nano = next(entry for entry in registry() if entry.alias == "zen-nano")
    return [
        "",
        f"Talk with it: zoo-gym chat --delta {folder / 'lowrank-2bit.safetensors'}",
        "These figures are zen-pico's; larger models have their own. The same on zen-nano, with",
        f"your examples (downloads {nano.download_bytes / 1e9:.1f} GB once, and asks first):",
        "",
        "  zoo-gym train my-examples.jsonl --model zen-nano",
        "  zoo-gym delta create last --out mine.safetensors",
        "  zoo-gym chat --delta mine.safetensors",
    ]
