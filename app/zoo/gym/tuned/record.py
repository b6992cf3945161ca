"""What a fine-tune records of its training, so that it is asked the same way.

The text of a system prompt stays in the run folder. A result or a delta contains only its SHA-256
and the fingerprint of the data: on the machine of the run the text can be found again; elsewhere
one can only say that there was a system prompt.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.data.own_tokenizer import own_in
from zoo.gym.delta.origin.record import DIGEST_KEY, ORIGIN_FILE, SYSTEM_KEY, digest_of, joint_of
from zoo.gym.files import read_json_object
from zoo.gym.jobs import run_folders
from zoo.gym.tuned.source import Source
from zoo.models.folder import read_object

if TYPE_CHECKING:
    from zoo.gym.delta import Origin


@dataclass(frozen=True)
class Record:
    """The record of a training, wherever the fine-tune is now.

    Attributes:
        source: the fine-tune.
    """

    source: Source

    @cached_property
    def stored(self) -> Mapping[str, Any]:
        """The fields of a result, or of a delta's recipe with its data; empty if there are none.

        Raises:
            InputError: the delta, or the file beside the weights, is damaged.
        """
        if self.source.artifact == "delta":
            header = self.source.delta.header
            return {**header.recipe, "data": header.data}
        path = self.source.folder / ORIGIN_FILE
        return read_object(path) if path.is_file() else {}

    @cached_property
    def system(self) -> str | None:
        """The system prompt, empty if there was none; None if its text is not on this machine."""
        if self.source.run is not None:
            system = _env(self.source.run.folder).get(SYSTEM_KEY)
            return system if isinstance(system, str) else ""
        digest = self.stored.get(DIGEST_KEY)
        if not isinstance(digest, str):
            return ""
        for env in (_env(run.folder) for run in run_folders()):
            system = str(env.get(SYSTEM_KEY) or "")
            if env.get("data") == self.data and digest_of(system) == digest:
                return system
        return None

    @property
    def joint(self) -> str:
        """What ends a prompt, for a model without a chat template."""
        return joint_of(self.stored)

    @property
    def tokenizer(self) -> Mapping[str, Any]:
        """How a delta's tokenizer differs from the base's."""
        return own_in(self.stored)

    @property
    def data(self) -> str | None:
        """The fingerprint of the training data."""
        data = self.stored.get("data")
        return data if isinstance(data, str) else None


def _env(folder: Path) -> Mapping[str, Any]:
    # a damaged run must not prevent a chat with another one
    return read_json_object(folder / "env.json") or {}


def origin_of(source: Source) -> "Origin | None":
    """Returns what a delta records about its run: settings and a fingerprint, no file names."""
    config = source.config
    if config is None or source.run is None:
        return None
    from zoo.gym.delta import Origin
    from zoo.gym.delta.origin.record import DIGEST_KEY, digest_of
    from zoo.gym.train.measuring import stored_fingerprint
    from zoo.gym.train.run_folder.settings import recipe_of

    recipe = config.public_settings() | recipe_of(source.run.env_file)
    if system := Record(source).system:
        recipe[DIGEST_KEY] = digest_of(system)
    return Origin(recipe, config.seed, stored_fingerprint(source.run.folder))
