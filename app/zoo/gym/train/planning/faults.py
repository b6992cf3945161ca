"""Everything that keeps a run from starting, found together and without reading weights."""

from collections.abc import Sequence
from pathlib import Path

from zoo.gym.config.stages import load_method
from zoo.gym.config.train import TrainConfig
from zoo.gym.engine import open_engine
from zoo.gym.errors import GymError, InputError
from zoo.gym.train.planning.continued import with_adapter
from zoo.gym.train.run_folder.pinned import check_packages


def check_engine(config: TrainConfig) -> None:
    """Checks the settings alone: that this machine's engine follows them, and has its packages.

    No engine is imported, and no file is read but the config of an adapter to train further.

    Raises:
        InputError: the engine does not follow some of them, one line for each.
        NotAvailableError: a package is not installed.
    """
    from zoo.backends import refused_settings

    config = with_adapter(config)
    spec = load_method(config.stage).load_spec(_settled(config))
    device = None if config.backend == "auto" else config.backend
    if found := refused_settings(device, spec, config.num_processes):
        raise joined(found)
    check_packages(config)


def check_start(config: TrainConfig, folder: Path) -> None:
    """Refuses settings that this machine's engine, or the method, cannot train a base with.

    Args:
        config: the settings as they were given.
        folder: of the base.

    Raises:
        GymError: one line for each reason; with the class of an `InputError` if one is.
    """
    from zoo.backends.ranks import PARALLEL, one_process_only

    method, found = load_method(config.stage), list[GymError]()
    try:
        method.check_models(config, folder)
    except GymError as error:
        found.append(error)
    try:
        engine = open_engine(config.backend)
        found += engine.faults(folder, method.load_spec(_settled(config)))
        if config.num_processes > 1 and engine.name not in PARALLEL:
            found.append(one_process_only(engine.name, config.num_processes))
    except GymError as error:  # this machine lacks the device
        found.append(error)
    if found:
        raise joined(found)


def _settled(config: TrainConfig) -> TrainConfig:
    """Returns the settings with what a plan chooses and others need."""
    if config.gradient_checkpointing is not None:
        return config
    needed = config.activation_offloading or config.stream_layers
    return config.model_copy(update={"gradient_checkpointing": needed})


def joined(errors: Sequence[GymError]) -> GymError:
    """Returns several errors as one, with their messages and hints in order."""
    kind = InputError if any(isinstance(one, InputError) for one in errors) else type(errors[0])
    hints = dict.fromkeys(one.hint for one in errors if one.hint)
    return kind("\n".join(one.message for one in errors), hint="; ".join(hints) or None)
