"""The speed of matrix products on this processor, measured once and cached."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

from zoo.gym.files import write_beside
from zoo.gym.paths import ensure_folder, folders

if TYPE_CHECKING:
    from zoo.backends.torch.products import ProductSpeeds


def product_speeds() -> "ProductSpeeds":
    """Returns the measured speeds of this processor, torch and environment.

    They are measured if they are not in the cache; that takes less than a second.

    Raises:
        StorageError: the cache folder cannot be created.
    """
    from zoo.backends.torch.products import ProductSpeeds, measure_products, processor_key

    file, key = folders().cache / "products.json", processor_key()
    kept = _kept(file, key)
    if kept is not None:
        return ProductSpeeds(*kept)
    found = measure_products()
    ensure_folder(file.parent)
    fields = {"f32_s": found.f32_s, "bf16_s": found.bf16_s, "widened_s": found.widened_s}
    write_beside(file, json.dumps({"key": key, **fields}, indent=2) + "\n")
    return found


def _kept(file: Path, key: dict[str, str]) -> list[float] | None:
    """Returns the three cached times for `key`; None if missing or damaged."""
    try:
        found: object = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    fields = cast("dict[str, object]", found)
    times = [fields.get(name) for name in ("f32_s", "bf16_s", "widened_s")]
    good = [time for time in times if isinstance(time, float) and 0 < time < 3600]
    return good if fields.get("key") == key and len(good) == len(times) else None


def chosen_dtype(folder: Path, device: str) -> str:
    """Returns how a model's frozen weights are stored and multiplied on a device."""
    from zoo.backends.torch.load import choose_dtype
    from zoo.models import checkpoint_files

    return choose_dtype(checkpoint_files(folder), device, product_speeds).dtype
