"""Several errors of the settings are reported as one."""

from zoo.gym.errors import GymError, InputError, NotAvailableError
from zoo.gym.train.planning.faults import joined


def test_errors_in_one_have_class_and_code_of_the_first_wrong_input() -> None:
    absent = NotAvailableError("no torch", hint="install it", code="backends.missing_package")
    wrong = InputError("3 bits", hint="4 or 8", code="backends.setting_not_supported")
    error = joined([absent, wrong, InputError("also", code="config.unknown")])
    assert (type(error), error.code) == (InputError, "backends.setting_not_supported")
    assert (error.message, error.hint) == ("no torch\n3 bits\nalso", "install it; 4 or 8")


def test_without_wrong_input_the_first_error_decides() -> None:
    errors: list[GymError] = [NotAvailableError("a", code="models.offline"), GymError("b")]
    error = joined(errors)
    assert (type(error), error.code) == (NotAvailableError, "models.offline")
