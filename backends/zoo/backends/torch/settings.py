"""The settings that the torch engine follows on some devices alone, or not at all.

torch is not imported, so that settings are checked before a run exists.
"""

from zoo.backends.spec import LoadSpec, QuantizationSpec

BITS = (4, 8)


def refused_settings(device: str, spec: LoadSpec) -> list[tuple[str, str]]:
    """Returns a sentence and a hint for each setting that is not followed on a device."""
    codes = [] if spec.quantization is None else refused_codes(spec.quantization)
    return refused_on_device(device, spec) + codes


def refused_on_device(device: str, spec: LoadSpec) -> list[tuple[str, str]]:
    """Returns a sentence and a hint for each setting that is for another device alone."""
    switches = {
        "enable_liger_kernel": spec.liger,
        "activation_offloading": spec.offload_activations,
    }
    refused = [
        (f"{key}: expected the device cuda, got {device}", f"leave {key} out")
        for key, on in switches.items()
        if on and device != "cuda"
    ]
    if spec.stream_layers and device != "cpu":
        text = f"stream_layers: expected the device cpu, got {device}"
        refused.append((text, "a model that fits in memory needs no streaming"))
    return refused


def refused_codes(spec: QuantizationSpec) -> list[tuple[str, str]]:
    """Returns why a quantisation is not one of this engine, with a hint; nothing for others."""
    if spec.method == "mlx":
        text = "quantization_method: expected bnb with torch, got mlx"
        return [(text, "backend=mlx")]
    if spec.bits not in BITS:
        text = f"quantization_bit: expected one of {BITS} with torch, got {spec.bits}"
        return [(text, "MLX has 2, 3, 4, 6 and 8 bits: backend=mlx")]
    return []
