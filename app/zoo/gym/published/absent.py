"""Published names of Python that do not exist here, each with what there is instead."""

ABSENT = {
    "PersonalizedServer": "serving models is not supported yet: expected zoo.gym.open_chat with the"
    " delta of one user",
    "PersonalizedTrainer": "a fine-tune for each user is not one call yet: expected zoo.gym.Trainer"
    " with the rows of one user, and then zoo.gym.create_delta",
}
"""Names of `zoo.gym` and its modules in published texts, with the error message."""


def no_such_name(module: str, name: str) -> ImportError | AttributeError:
    """Returns the error for a name that a module does not have.

    That of a published name is an ImportError, as `from module import name` drops the message of
    an AttributeError.
    """
    if name in ABSENT:
        return ImportError(f"{name}: {ABSENT[name]}", name=module)
    return AttributeError(f"module {module!r} has no attribute {name!r}")
