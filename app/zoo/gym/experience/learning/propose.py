"""One step's edits: the teacher sees each group with better and worse answers, a probe decides."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from zoo.gym.errors import InputError
from zoo.gym.experience.calls.caller import TOO_LONG, Model
from zoo.gym.experience.calls.journal import Ask, Phase, Slot
from zoo.gym.experience.learning.answers import Answer, Answers, mean_reward
from zoo.gym.experience.learning.prompts import AGAIN, MOST_EDITS, teacher_turns
from zoo.gym.experience.learning.retire import retire
from zoo.gym.experience.learning.split import source_of
from zoo.gym.experience.library.edits import SCHEMA, Edit, UnreadableError, check_edit, parse_edits
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.settings import ExperienceConfig
from zoo.gym.rewards.reward import Task

MOST_PER_STEP = 16
"""How many edits a step may make."""

MOST_REJECTED = 12
"""How many rejected edits a teacher sees: the latest."""


@dataclass
class Proposed:
    """The outcome of a step before its gate.

    Attributes:
        library: the current library with the edits.
        edits: the edits that were made, in words.
        reward: the mean reward of the groups' answers.
        counts: groups, mixed groups, refused edits and why, retired lessons.
        made_room: whether lessons were left out to find some to retire.
    """

    library: Library
    edits: list[str] = field(default_factory=list[str])
    reward: float | None = None
    counts: Counter[str] = field(default_factory=Counter[str])
    made_room: bool = False


@dataclass
class Proposer:
    """Makes the edits of a step.

    Attributes:
        answers: draws answers of the model.
        teacher: the model that proposes edits.
        config: the settings.
        tasks: all tasks that teach, also those of other steps.
        rejected: edits that did not help, in words, the latest last.
    """

    answers: Answers
    teacher: Model
    config: ExperienceConfig
    tasks: Sequence[Task] = ()
    rejected: list[str] = field(default_factory=list[str])

    def propose(self, step: int, tasks: Sequence[Task], library: Library) -> Proposed:
        """Returns a library with the edits of a step."""
        groups = self.answers.draw(
            ("rollout", step, 0),
            dict(enumerate(tasks)),
            self.config.group_size,
            library,
            self.config.sampling_train,
        )
        proposed = Proposed(library, reward=mean_reward(chain.from_iterable(groups)))
        for number, group in enumerate(groups):
            proposed.counts["groups"] += 1
            scored = [answer for answer in group if not answer.score.failed]
            is_mixed = len({answer.score.value for answer in scored}) > 1
            if is_mixed and len(proposed.edits) < MOST_PER_STEP:
                proposed.counts["mixed groups"] += 1
                self._learn_from(proposed, step, number, tasks[number], scored)
        return proposed

    def _learn_from(
        self, proposed: Proposed, step: int, number: int, task: Task, scored: Sequence[Answer]
    ) -> None:
        bar = mean_reward(scored)
        assert bar is not None
        better = sum(answer.score.value > bar for answer in scored)
        origin = Item(
            "",
            sources=(source_of(task),),
            better=better,
            worse=len(scored) - better,
            model=self.answers.model.name,
            step=step + 1,
        )
        for look, proposal in enumerate(self._ask(proposed, step, number, task, scored)):
            if look >= MOST_EDITS or len(proposed.edits) >= MOST_PER_STEP:
                proposed.counts["refused: surplus"] += 1
                continue
            try:
                edit = check_edit(proposal, proposed.library, origin)
                edited = None if edit is None else self._applied(proposed, step, edit)
            except InputError as error:
                proposed.counts[f"refused: {error.message.partition(':')[0]}"] += 1
                continue
            if edit is None or edited is None:
                proposed.counts["none"] += 1
            elif (reward := self._probe(("probe", step, look), {number: task}, edited)) > bar:
                proposed.library = _with_probe(edited, edit, bar, reward)
                bar = reward  # the next edit is added to this one
                proposed.edits.append(edit.words)
            else:
                proposed.counts["refused: probe"] += 1
                self.reject([edit.words])

    def _applied(self, proposed: Proposed, step: int, edit: Edit) -> Library:
        """Returns the library with an edit; a full one makes room, once a step."""
        try:
            return edit.apply(proposed.library)
        except InputError:
            if proposed.made_room or not self.tasks:
                raise
        proposed.made_room = True
        size = len(proposed.library.items)
        proposed.library = retire(
            self.answers, proposed.library, self.tasks, step, self.config.sampling_train
        )
        proposed.counts["retired"] += size - len(proposed.library.items)
        return edit.apply(proposed.library)

    def reject(self, words: Sequence[str]) -> None:
        """Remembers edits that did not help, for the teacher."""
        self.rejected = [*(edit for edit in self.rejected if edit not in words), *words]
        del self.rejected[:-MOST_REJECTED]

    def _probe(
        self, slot: tuple[Phase, int, int], task: Mapping[int, Task], edited: Library
    ) -> float:
        """Returns the mean reward of fresh answers to the group's own task with an edit."""
        config = self.config
        [group] = self.answers.draw(slot, task, config.group_size, edited, config.sampling_train)
        mean = mean_reward(group)
        return float("-inf") if mean is None else mean

    def _ask(
        self, proposed: Proposed, step: int, number: int, task: Task, scored: Sequence[Answer]
    ) -> Sequence[Mapping[str, object]]:
        """Returns what the teacher proposes, after a second try if the first cannot be read."""
        graded = [(answer.text, answer.score.value) for answer in scored]
        turns = teacher_turns(task, proposed.library, graded, self.rejected)
        for draw in range(2):
            slot = Slot("teach", step, 0, number, draw)
            ask = Ask(slot, turns, self.config.sampling_teacher, SCHEMA)
            [reply] = self.answers.caller.ask(self.teacher, [ask])
            if reply.finish == TOO_LONG:
                proposed.counts["too long for the teacher"] += 1
                return ()
            try:
                return parse_edits(reply.text)
            except UnreadableError:
                answer = {"role": "assistant", "content": reply.text or "(nothing)"}
                turns = [*turns, answer, {"role": "user", "content": AGAIN}]
        proposed.counts["unreadable"] += 1
        return ()


def _with_probe(library: Library, edit: Edit, base: float, learned: float) -> Library:
    """Returns an edited library whose new lesson has the rewards of its probe."""
    if edit.added is None or library.find(edit.added.id) != edit.added:
        return library
    evidence = {"probe_without": round(base, 6), "probe_with": round(learned, 6)}
    item = replace(edit.added, evidence=evidence)
    return library.changed([item.id], [item])
