"""What to do after the demo: the same job on a larger model."""


def closing_words() -> list[str]:
    """Returns what to type for zen-nano, with the size of its download."""
    from zoo.models import registry

    nano = next(entry for entry in registry() if entry.alias == "zen-nano")
    return [
        "",
        "These figures are zen-pico's; larger models have their own. The same on zen-nano, with",
        f"your examples (downloads {nano.download_bytes / 1e9:.1f} GB once, and asks first):",
        "",
        "  zoo-gym train my-examples.jsonl --model zen-nano",
        "  zoo-gym delta create last --out mine.safetensors",
        "  zoo-gym chat --delta mine.safetensors",
    ]
