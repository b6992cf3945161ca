"""The base of all settings: a frozen model that reports errors with our messages."""

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from zoo.gym.config import report
from zoo.gym.errors import InputError


class Settings(BaseModel, frozen=True):
    """Settings that are checked on creation and immutable."""

    model_config = ConfigDict(extra="forbid")

    def __init__(self, /, **values: Any) -> None:  # noqa: ANN401 - each field has its own type
        """Checks the values.

        Raises:
            InputError: unknown keys or invalid values, one line for each.
        """
        public, private = self._apart(values)
        try:
            super().__init__(**public)
        except ValidationError as error:
            lines = (f"{key}: {text}" for key, text in report.sentences(error, type(self)))
            raise InputError("\n".join(lines)) from error
        for name, value in private.items():
            setattr(self, name, value)

    # as in pydantic's own subclasses: `model_validate` does not call it and raises pydantic's
    # error, from which `load.py` and `cli/flags.py` make messages with file and line
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def _apart(cls, values: dict[str, object]) -> tuple[dict[str, object], dict[str, object]]:
        """Returns the values of settings, and those of private attributes."""
        return values, {}

    def __setattr__(self, name: str, value: object) -> None:
        """Refuses to change a setting: settings are validated together.

        Raises:
            InputError: `name` is a setting.
        """
        if name in type(self).model_fields:
            kind = type(self).__name__
            raise InputError(
                f"{name}: settings are immutable: expected a new object",
                hint=f"{kind}(**(settings.model_dump() | {{{name!r}: {value!r}}}))",
            )
        super().__setattr__(name, value)
