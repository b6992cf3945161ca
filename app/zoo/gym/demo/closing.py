"""What to do after the demo: the same workflow on a larger model."""

from pathlib import Path


def closing_words(folder: Path) -> list[str]:
    """Returns the suggested next commands, with the download size of zen-nano.

    Args:
        folder: the folder with the demo's deltas.
    """
    from zoo.models import registry

    nano = next(entry for entry in registry() if entry.alias == "zen-nano")
    return [
        "",
        f"Chat with it: zoo-gym chat --delta {folder / 'lowrank-2bit.safetensors'}",
        "These figures are for zen-pico; larger models differ. The same on zen-nano with your",
        f"examples (asks before it downloads {nano.download_bytes / 1e9:.1f} GB, once):",
        "",
        "  zoo-gym train my-examples.jsonl --model zen-nano",
        "  zoo-gym delta create last --out mine.safetensors",
        "  zoo-gym chat --delta mine.safetensors",
    ]
