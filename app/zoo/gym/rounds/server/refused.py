"""What a server of rounds refuses, with the HTTP status that says why."""

from zoo.gym.errors import GymError


class RefusedError(GymError):
    """A request that is not carried out.

    Attributes:
        status: of the response.
    """

    def __init__(self, status: int, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status
