"""The errors of every layer: one root, and one class for each way a caller handles them.

`zoo.gym.errors` maps each to an exit code.
"""


class GymError(Exception):
    """A failure reported to the user as one message.

    The message is lowercase, has no final period, quotes the wrong value and says where it came
    from: `train.yaml:6: learning_rte: no such setting`.

    Args:
        message: what is wrong: expected X, got Y.
        hint: the command or key that fixes it, printed on its own line.
        code: `room.reason`, for programs: it stays when the words change. Codes are listed in
            docs/reference/errors.md, and are added, never renamed.
    """

    def __init__(self, message: str, *, hint: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


class InputError(GymError):
    """The user's input is wrong: a setting, a data row, a file, the wrong base."""


class DoesNotFitError(GymError):
    """The job needs more memory or disk than the machine has."""


class NotAvailableError(GymError):
    """A file, a model or the network is not available."""


class InterruptedRunError(GymError):
    """A run stopped before its end and can be resumed."""


class GuardError(GymError):
    """A run was ended because it would have learned nothing."""


class StorageError(GymError):
    """A folder or disk could not be written."""


class GymWarning(UserWarning):
    """A warning for the user while the work continues; the message has the form of an error."""
