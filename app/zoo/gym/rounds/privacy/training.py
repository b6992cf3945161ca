"""The settings with which a run trains for a private round: B alone, on the A of the round."""

from zoo.gym.rounds.kinds import kind_of
from zoo.gym.rounds.life.opening import open_round
from zoo.gym.rounds.life.places import find_storage


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
    return kind_of(manifest).training(manifest)
