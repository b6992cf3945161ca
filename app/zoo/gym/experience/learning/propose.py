"""One step's edits: the teacher sees each group with better and worse answers, a probe decides."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from zoo.backends.sampling import Sampling
from zoo.gym.errors import InputError
from zoo.gym.experience.calls.caller import TOO_LONG, Caller, Model
from zoo.gym.experience.calls.slot import Ask, Slot
from zoo.gym.experience.learning.answers import Answer, Answers, chunked, mean_reward, slots
from zoo.gym.experience.learning.prompts import AGAIN, MOST_EDITS, teacher_turns
from zoo.gym.experience.learning.retire import retire
from zoo.gym.experience.learning.split import source_of
from zoo.gym.experience.library.edits import (
    SCHEMA,
    Edit,
    UnreadableError,
    check_edit,
    parse_edits,
)
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.rewards.reward import Task

MOST_PER_STEP = 16
"""How many edits a step may make."""

MOST_REJECTED = 12
"""How many rejected edits a teacher sees: the latest."""


@dataclass
class Proposed:
    """The outcome of a step before its gate.

    Attributes:
        library: the kept library with the edits.
        edits: the edits that were made, in words.
        reward: the mean reward of the groups' answers.
        counts: groups, mixed groups, edits that were probed, refused and why, lessons retired.
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
        caller: makes the teacher's calls.
        teacher: the model that proposes edits.
        group_size: answers in a group, and in a probe.
        how: how answers are drawn.
        teacher_how: how the teacher's are.
        tasks: all tasks that teach, also those of other steps.
        rejected: edits that did not help, in words, the latest last.
    """

    answers: Answers
    caller: Caller
    teacher: Model
    group_size: int
    how: Sampling
    teacher_how: Sampling
    tasks: Sequence[Task] = ()
    rejected: list[str] = field(default_factory=list[str])

    def propose(self, step: int, tasks: Sequence[Task], kept: Library) -> Proposed:
        """Returns the kept library with the edits of a step.

        Args:
            step: the step, from 0.
            tasks: the tasks of the step.
            kept: the library of all groups' answers.
        """
        places = range(len(tasks))
        drawn = [task for task in tasks for _ in range(self.group_size)]
        where = slots("rollout", step, 0, places, self.group_size)
        answers = self.answers.draw(drawn, where, kept, self.how)
        found = Proposed(kept, reward=mean_reward(answers))
        for place, group in enumerate(chunked(answers, self.group_size)):
            found.counts["groups"] += 1
            rewards = {one.score.value for one in group if not one.score.failed}
            if len(rewards) > 1 and len(found.edits) < MOST_PER_STEP:
                found.counts["mixed groups"] += 1
                self._learn_from(found, step, place, tasks[place], group)
        return found

    def _learn_from(
        self, found: Proposed, step: int, place: int, task: Task, group: Sequence[Answer]
    ) -> None:
        scored = [answer for answer in group if not answer.score.failed]
        mean = mean_reward(scored)
        assert mean is not None
        better = sum(answer.score.value > mean for answer in scored)
        origin = Item(
            "",
            sources=(source_of(task),),
            better=better,
            worse=len(scored) - better,
            model=self.answers.model.name,
            step=step + 1,
        )
        bar = mean
        for number, given in enumerate(self._ask(found, step, place, task, scored)):
            if number >= MOST_EDITS or len(found.edits) >= MOST_PER_STEP:
                found.counts["refused: surplus"] += 1
                continue
            try:
                edit = check_edit(given, found.library, origin)
                edited = None if edit is None else self._applied(found, step, edit)
            except InputError as error:
                found.counts[f"refused: {error.message.partition(':')[0]}"] += 1
                continue
            if edit is None or edited is None:
                found.counts["none"] += 1
            elif (probed := self._probe(step, place, number, task, edited)) > bar:
                found.library = _probed(edited, edit, bar, probed)
                bar = probed  # the next edit stands beside this one
                found.edits.append(edit.words)
            else:
                found.counts["refused: probe"] += 1
                self.reject([edit.words])

    def _applied(self, found: Proposed, step: int, edit: Edit) -> Library:
        """Returns the library with an edit; a full one makes room, once a step.

        Raises:
            InputError: there is no room.
        """
        try:
            return edit.apply(found.library)
        except InputError:
            if found.made_room or not self.tasks:
                raise
        found.made_room = True
        rest = retire(self.answers, found.library, self.tasks, step, self.how)
        found.counts["retired"] += len(found.library.items) - len(rest.items)
        found.library = rest
        return edit.apply(found.library)

    def reject(self, words: Sequence[str]) -> None:
        """Remembers edits that did not help, for the teacher."""
        self.rejected = [*(one for one in self.rejected if one not in words), *words]
        del self.rejected[:-MOST_REJECTED]

    def _probe(self, step: int, place: int, number: int, task: Task, edited: Library) -> float:
        """Returns the mean reward of fresh answers to the group's own task with an edit."""
        where = slots("probe", step, number, [place], self.group_size)
        drawn = self.answers.draw([task] * self.group_size, where, edited, self.how)
        mean = mean_reward(drawn)
        return float("-inf") if mean is None else mean

    def _ask(
        self, found: Proposed, step: int, place: int, task: Task, scored: Sequence[Answer]
    ) -> Sequence[Mapping[str, object]]:
        """Returns what the teacher proposes, after a second try if the first cannot be read."""
        graded = [(answer.text, answer.score.value) for answer in scored]
        turns = teacher_turns(task, found.library, graded, self.rejected)
        for number in range(2):
            ask = Ask(Slot("teach", step, 0, place, number), turns, self.teacher_how, SCHEMA)
            [reply] = self.caller.ask(self.teacher, [ask])
            if reply.finish == TOO_LONG:
                found.counts["too long for the teacher"] += 1
                return ()
            try:
                return parse_edits(reply.text)
            except UnreadableError:
                said = {"role": "assistant", "content": reply.text or "(nothing)"}
                turns = [*turns, said, {"role": "user", "content": AGAIN}]
        found.counts["unreadable"] += 1
        return ()


def _probed(library: Library, edit: Edit, before: float, after: float) -> Library:
    """Returns an edited library whose new lesson has what its probe found."""
    if edit.added is None or library.find(edit.added.id) != edit.added:
        return library
    evidence = {"probe_without": round(before, 6), "probe_with": round(after, 6)}
    item = replace(edit.added, evidence=evidence)
    return library.changed([item.id], [item])
