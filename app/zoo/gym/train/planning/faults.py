"""Everything that keeps a run from starting, found together and without reading weights."""

from collections.abc import Sequence
from pathlib import Path

from zoo.gym.config.stages import load_method
from zoo.gym.config.train import TrainConfig
from zoo.gym.engine import open_engine
from zoo.gym.errors import GymError, InputError
from zoo.gym.train.planning.continued import with_adapter
from zoo.gym.train.planning.trackers import check_trackers


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
    if refused := refused_settings(device, spec, config.num_processes):
        raise joined(refused)
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

    method, errors = load_method(config.stage), list[GymError]()
    try:
        method.check_models(config, folder)
    except GymError as error:
        errors.append(error)
    try:
        engine = open_engine(config.backend)
        errors += engine.faults(folder, method.load_spec(_settled(config)))
        if config.num_processes > 1 and engine.name not in PARALLEL:
            errors.append(one_process_only(engine.name, config.num_processes))
    except GymError as error:  # this machine lacks the device
        errors.append(error)
    if errors:
        raise joined(errors)


def check_packages(config: TrainConfig) -> None:
    """Checks that this machine has the device and the packages that the settings need.

    Raises:
        NotAvailableError: one is missing.
        InputError: the environment switches a tracker off.
    """
    from zoo.backends.libraries.liger import require_liger
    from zoo.backends.libraries.quantization import require_bitsandbytes
    from zoo.backends.libraries.torch_package import require_torch
    from zoo.backends.machine.detect import is_mlx
    from zoo.backends.optimizer_spec import IN_LIBRARY

    require_torch()
    _check_device(config)
    check_trackers(config)
    if config.enable_liger_kernel:
        require_liger()
    if config.optim in IN_LIBRARY:
        require_bitsandbytes(f"optim: {config.optim}")
    backend = None if config.backend == "auto" else config.backend
    if config.quantization_bit is not None and not is_mlx(backend):
        require_bitsandbytes()


def _check_device(config: TrainConfig) -> None:
    """Checks the device, without an import of torch where every machine has it."""
    from zoo.backends.launched import launched_place
    from zoo.backends.libraries.quantization import check_device
    from zoo.backends.machine.detect import detect, require, require_gpus
    from zoo.backends.optimizer_spec import IN_LIBRARY

    if config.backend not in {"auto", "cpu"}:
        require(config.backend)
    shares, in_library = config.num_processes > 1, config.optim in IN_LIBRARY
    if not shares and not in_library:
        return
    device = detect().name if config.backend == "auto" else config.backend
    if in_library:
        check_device(config.optim, device)
    if shares and device == "cuda" and launched_place() is None:
        require_gpus(config.num_processes)


def _settled(config: TrainConfig) -> TrainConfig:
    """Returns the settings with what a plan chooses and others need."""
    if config.gradient_checkpointing is not None:
        return config
    needed = config.activation_offloading or config.stream_layers
    return config.model_copy(update={"gradient_checkpointing": needed})


def joined(errors: Sequence[GymError]) -> GymError:
    """Returns several errors as one, with their messages and hints in order.

    Its class and code are those of the first `InputError`; if there is none, of the first error.
    """
    first = next((error for error in errors if isinstance(error, InputError)), errors[0])
    kind = InputError if isinstance(first, InputError) else type(first)
    hints = dict.fromkeys(error.hint for error in errors if error.hint)
    lines = "\n".join(error.message for error in errors)
    return kind(lines, hint="; ".join(hints) or None, code=first.code)
