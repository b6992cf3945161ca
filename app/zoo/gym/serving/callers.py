"""Who asks a server, what each may ask, and what those that may not are answered.

The owner of the server asks for everything. A user has a token for one variant: anything else is
answered as if it did not exist.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from zoo.gym.errors import NotAvailableError
from zoo.gym.files import read_small
from zoo.gym.http_guard.gate import UNKNOWN_CALLER, RefusedError
from zoo.gym.http_guard.run import stored_token
from zoo.gym.serving.variants import Models, NoSuchModelError
from zoo.gym.serving.wire import problem
from zoo.gym.variants.store import NAME, Stored, label_of, token_file


@dataclass(frozen=True)
class Caller:
    """Who asks.

    Attributes:
        variant: the only one that may be asked; None for the owner.
        token: what the requests of a user have.
        file: has the token of a user for as long as it is of use.
    """

    variant: str | None = None
    token: str = field(default="", repr=False)
    file: Path | None = None

    def check_token(self) -> None:
        """Refuses a user whose variant was removed since the server started.

        Raises:
            RefusedError: it was.
        """
        try:
            if self.file is None or read_small(self.file).decode().strip() == self.token:
                return
        except (OSError, UnicodeDecodeError):
            pass
        raise RefusedError(401, UNKNOWN_CALLER)

    def check_model(self, base: str, model: str, user: str | None = None) -> None:
        """Refuses a model that this caller has no use of.

        Args:
            base: what requests call the base.
            model: what is asked.
            user: the `user_id` of the request.

        Raises:
            NoSuchModelError: it is not the caller's variant, whether it exists or not.
        """
        if self.variant is None:
            return
        name = model.removeprefix(f"{base}:")
        # alone, a name that is also the base's is the base
        is_own = name == self.variant if model != base else user is not None
        if user not in {None, self.variant}:
            raise NoSuchModelError(str(user), "user_id")
        if not is_own:
            raise NoSuchModelError(model)


OWNER = Caller()


async def users_of(models: Models, base: Path, names: Iterable[str]) -> list[Caller]:
    """Returns the users of variants, with tokens that are made the first time.

    Args:
        models: the models of the server.
        base: the base's folder or file.
        names: variants.

    Raises:
        NotAvailableError: there is no such variant.
        StorageError: a token cannot be kept.
    """
    users: list[Caller] = []
    for name in names:
        try:
            # never a library behind '+', a path, or a run, whose id may be given to another one
            if not NAME.fullmatch(name) or not models.is_variant(name):
                raise NoSuchModelError(name)
            await models.ask(f"{models.name}:{name}")
        except NotAvailableError:
            raise NotAvailableError(
                f"user token: expected a variant of {models.name}, got {name!r:.100}",
                hint="zoo-gym variants list, or name it with --variant",
                code="serving.no_such_user",
            ) from None
        file = token_file(Stored(label_of(base), name, Path()))
        users.append(Caller(name, stored_token(file), file))
    return users


def refusal(error: RefusedError) -> tuple[int, bytes]:
    """Returns the status and the body for a caller that may not ask.

    One without a token reads in OpenAI's form what is missing. Another host name or page gets no
    content: a page in a browser has no use for a reason.
    """
    if error.status != 401:
        return 403, b""
    return 401, json.dumps(problem(error.message, param=None, code="invalid_api_key")).encode()
