"""What can go wrong, as a caller sees it: one root, and one class for each way of handling it.

Every layer raises these; `zoo.gym.errors` maps each to an exit code.
"""


class GymError(Exception):
    """A failure that is told to the user in one sentence.

    The message is lower case, has no final period, quotes the value at fault and says where it
    came from: `train.yaml:6: learning_rte: no such setting`.

    Args:
        message: what is wrong: expected X, got Y.
        hint: the command or key that mends it, printed on its own line.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


class InputError(GymError):
    """What the user handed over is wrong: a setting, a data row, a file, the wrong base."""


class DoesNotFitError(GymError):
    """The job needs more memory or disk than the machine has."""


class NotAvailableError(GymError):
    """A file, a model or a network is not there."""


class InterruptedRunError(GymError):
    """A run stopped before its end and can be resumed."""


class GuardError(GymError):
    """A run was stopped because it would have learned nothing."""


class StorageError(GymError):
    """A folder or disk could not be written."""


class GymWarning(UserWarning):
    """What a user should know though the work goes on, in one sentence like an error's."""
