"""Scores responses by a reward model: a sequence classification model with one label."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zoo.gym.arguments import model_folder
from zoo.gym.config.reward import ModelSettings
from zoo.gym.data import EncodeOptions, Message, Record, load_tokenizer, split_thinking
from zoo.gym.data.rows import encode_row, make_encoder
from zoo.gym.errors import InputError
from zoo.gym.rewards.reward import Configured, Sample, Score, no_reward

if TYPE_CHECKING:
    from zoo.backends.base import RewardModel

DATE = "2024-07-26"
"""The date that a chat template prints: scores do not depend on the day."""


class ModelReward(Configured[ModelSettings]):
    """The number that the reward model gives to a chat with the response, as it was trained.

    Raises:
        InputError: the folder contains no reward model.
        NotAvailableError: no model of that name is on this machine.
    """

    def __init__(self, settings: ModelSettings) -> None:
        from zoo.gym.engine import open_engine
        from zoo.models.folder import model_positions, vocabulary_size

        self.settings = settings
        folder = model_folder("reward", settings.model)
        self._positions = model_positions(folder)
        options = EncodeOptions(cutoff_len=1 << 30, date=DATE, vocabulary=vocabulary_size(folder))
        self._encoder = make_encoder(load_tokenizer(folder), options)
        self._model: RewardModel = open_engine().load_reward_model(folder)

    @property
    def description(self) -> str:
        """Which model scores."""
        return f"the score of the reward model {self.settings.model}"

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Returns the score of each sample; no reward for one that is too long for the model."""
        return [self._one(sample) for sample in samples]

    def _one(self, sample: Sample) -> Score:
        try:
            ids = encode_row(self._encoder, _as_row(sample)).ids
        except InputError as error:
            return no_reward(error.message)
        if self._positions is not None and len(ids) > self._positions:
            return no_reward(
                f"{len(ids):,} tokens: the reward model reads at most {self._positions:,}"
            )
        return Score(self._model.score([ids])[0])


def _as_row(sample: Sample) -> Record:
    """Returns a chat that ends with the response; one turn of prompt is also a completion."""
    task = sample.task
    if len(task.messages) == 1:
        asked, answer = task.query, sample.response
        return Record(task.source, "completion", prompt=asked, completion=answer, tools=task.tools)
    reasoning, answer = split_thinking(sample.response)
    turns = (*task.messages, Message("assistant", answer, reasoning))
    return Record(task.source, "chat", messages=turns, tools=task.tools)
