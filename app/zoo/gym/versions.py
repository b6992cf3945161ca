"""The versions of our dependencies, read without importing them."""

PACKAGES = (
    "zoo-gym",
    "torch",
    "transformers",
    "peft",
    "bitsandbytes",
    "numpy",
    "safetensors",
    "huggingface_hub",
    "mlx",
    "mlx-lm",
)


def versions() -> dict[str, str]:
    """Returns the version of each package that is installed."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    installed: dict[str, str] = {}
    for package in PACKAGES:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed
