"""The settings with which a run trains for a private round: B alone, on the A of the round."""

from zoo.gym.errors import InputError
from zoo.gym.rounds.life.opening import open_round
from zoo.gym.rounds.life.places import find_storage
from zoo.models.adapters import WEIGHT


def settings_for(given: str) -> dict[str, object]:
    """Returns the settings that a round fixes, the default of the base among them.

    Args:
        given: the round's folder, address, name or id.

    Raises:
        InputError: it is not a private round, or has tensors that no layer's weight is.
        NotAvailableError: there is no such round.
        StorageError: it cannot be read.
    """
    storage, expected = find_storage(given)
    manifest = open_round(storage, expected=expected).manifest
    manifest.expect("delta", "round", "zoo-gym round contribute LIBRARY takes lessons")
    if manifest.privacy is None:
        raise InputError(
            f"round: expected a private round, got {manifest.name}, whose contributions can be "
            "trained with any settings",
            hint=f"leave it out, and then: zoo-gym round contribute last --round {manifest.name}",
        )
    names = [tensor.name for tensor in manifest.tensors]
    strange = next((name for name in names if not name.endswith(WEIGHT)), None)
    if strange is not None:
        raise InputError(f"round: expected weights of layers, got {strange!r}")
    return {
        "model_name_or_path": manifest.base.model,
        "finetuning_type": "lora",
        "lora_rank": manifest.caps.rank,
        "lora_target": ",".join(name.removesuffix(WEIGHT) for name in names),
        "lora_fixed_a": manifest.privacy.seed,
        "base_identity": manifest.base.identity,
    }
