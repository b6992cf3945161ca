"""Exports of WhatsApp: one speaker is learned, in conversations between silences."""

from pathlib import Path

import pytest

from tests.codes import raises
from zoo.gym.config.train import TrainConfig
from zoo.gym.data import Dataset
from zoo.gym.data.reading.columns import Layout
from zoo.gym.data.reading.dataset import read_dataset

ANDROID = """\
12/30/23, 21:00 - Messages and calls are end-to-end encrypted.
12/30/23, 21:04 - Bob: Are you there?
12/30/23, 21:05 - Bob: Hello?
12/30/23, 21:06 - Anna: Yes:
- a list
  of two
12/30/23, 21:07 - Anna: <Media omitted>
12/30/23, 21:08 - Bob: IMG-1.jpg (file attached)
12/31/23, 9:00 - Anna: Good morning
12/31/23, 9:01 - Bob: You deleted this message
12/31/23, 9:02 - Bob: Tea?
12/31/23, 9:03 - Anna: Please \u200e<This message was edited>
"""

IOS = """\
\u200e[30.12.23, 21:00:00] Bob: \u200eMessages and calls are end-to-end encrypted.
[30.12.23, 21:04:05] Bob: Are you there?
[30.12.23, 21:05:59] \u202aBob\u202c: Hello?
[30.12.23, 21:06:00] Anna: Yes:
- a list
  of two
\u200e[30.12.23, 21:07:00] Anna: \u200eimage omitted
[30.12.23, 21:08:00] Bob: image omitted
[31.12.23, 09:00:00] Anna: Good morning
[31.12.23, 09:01:00] Bob: \u200eThis message was deleted.
[31.12.23, 09:02:00] Bob: Tea?
[31.12.23, 09:03:00] Anna: Please
"""

CHATS = [
    [("user", "Are you there?\nHello?"), ("assistant", "Yes:\n- a list\n  of two")],
    [("user", "Tea?"), ("assistant", "Please")],
]


def read(folder: Path, text: str, me: str | None = "Anna") -> Dataset:
    path = folder / "chat.txt"
    path.write_text(text, encoding="utf-8")
    return read_dataset([path], layout=Layout(me=me))


def chats(data: Dataset) -> list[list[tuple[str, str]]]:
    return [[(turn.role, turn.content) for turn in record.messages] for record in data.records]


@pytest.mark.parametrize("text", [ANDROID, IOS, "\ufeff" + IOS, ANDROID.replace("\n", "\r\n")])
def test_conversations_of_both_forms_are_the_same(tmp_path: Path, text: str) -> None:
    data = read(tmp_path, text)
    assert chats(data) == CHATS
    assert data.formats == {str(tmp_path / "chat.txt"): "WhatsApp export"}


def test_a_conversation_is_named_by_the_line_of_its_first_turn(tmp_path: Path) -> None:
    lines = [record.source.rpartition(":")[2] for record in read(tmp_path, ANDROID).records]
    assert lines == ["2", "11"]


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    alone = "1/2/24, 9:00 - Bob: Anyone?\n"
    (note,) = read(tmp_path, ANDROID + alone).notes
    assert set(note.partition("left out of chats: ")[2].split(", ")) == {
        "1 system line",
        "3 placeholders",
        "1 opening message",
        "1 unanswered message",
    }


@pytest.mark.parametrize("me", [None, "anna", "Tea"])
def test_without_a_speaker_of_the_file_the_speakers_are_listed(
    tmp_path: Path, me: str | None
) -> None:
    with raises("data.unknown_speaker") as caught:
        read(tmp_path, ANDROID, me)
    assert "'Bob' (3 messages), 'Anna' (3 messages)" in caught.value.message
    assert "--me" in str(caught.value.hint)


def test_a_speaker_of_no_export_is_refused(tmp_path: Path) -> None:
    with raises("data.no_speakers") as caught:
        read(tmp_path, "words")
    assert caught.value.code == "data.no_speakers"


def test_a_speaker_who_answers_nobody_is_refused(tmp_path: Path) -> None:
    with raises("data.no_answer", "a conversation in which 'Anna' answers"):
        read(tmp_path, "1/2/24, 9:00 - Anna: Hello?\n1/2/24, 9:01 - Anna: Bob?")


def test_other_speakers_of_a_group_are_named(tmp_path: Path) -> None:
    lines = ["Bob: Tea?", "Cid: Milk?", "Anna: Both"]
    text = "\n".join(f"1/2/24, 9:00 - {line}" for line in lines)
    assert chats(read(tmp_path, text)) == [
        [("user", "Bob: Tea?\nCid: Milk?"), ("assistant", "Both")]
    ]


@pytest.mark.parametrize(
    ("first", "second", "apart"),
    [
        ("1/2/24, 11:30\u202fPM - ", "1/3/24, 12:10\u202fAM - ", False),
        ("1/2/24, 9:00 am - ", "1/2/24, 3:00 p.m. - ", True),
        ("2024-01-31, 23:00 - ", "2024-02-01, 01:00 - ", False),
        ("[31.01.2024 23:00:00] ", "[01.02.2024 01:00:00] ", False),
        ("[31/01/2024, 9.00.00] ", "[31/01/2024, 15.00.00] ", True),
        ("29.1.2024 klo 12.10 - ", "29.1.2024 klo 19.10 - ", True),
        ("2024/1/28 上午9:05 - ", "2024/1/28 下午1:05 - ", False),
        ("2024/1/28 午前9:05 - ", "2024/1/28 午後9:05 - ", True),
        ("2024. 1. 28. 오전 9:05, ", "2024. 1. 28. 오후 9:05, ", True),
        (
            "\u200f28\u200f/01\u200f/2024، 9:05 ص - ",
            "\u200f28\u200f/01\u200f/2024، 9:05 م - ",
            True,
        ),
    ],
)
def test_a_silence_of_six_hours_parts_conversations(
    tmp_path: Path, first: str, second: str, apart: bool
) -> None:
    lines = [f"{stamp}{said}" for stamp in (first, second) for said in ("Bob: a", "Anna: b")]
    assert len(read(tmp_path, "\n".join(lines)).records) == 1 + apart


@pytest.mark.parametrize("stamps", [("2/1/24", "2/2/24"), ("1/2/24", "2/2/24")])
def test_the_order_of_dates_is_the_one_with_shorter_gaps(
    tmp_path: Path, stamps: tuple[str, str]
) -> None:
    times = zip(stamps, ("23:50", "0:10"), strict=True)  # 20 minutes, or a month
    lines = [f"{day}, {time} - {said}" for day, time in times for said in ("Bob: a", "Anna: b")]
    assert len(read(tmp_path, "\n".join(lines)).records) == 1


def test_dates_that_are_none_are_refused(tmp_path: Path) -> None:
    with raises("data.bad_date") as caught:
        read(tmp_path, "99/99/24, 9:00 - Bob: a\n99/99/24, 9:00 - Anna: b")
    assert caught.value.code == "data.bad_date"


def test_prose_with_such_a_line_is_prose(tmp_path: Path) -> None:
    data = read_dataset([_written(tmp_path, "He wrote:\n1/2/24, 9:00 - Bob: a")])
    assert [record.kind for record in data.records] == ["text"]


def _written(folder: Path, text: str) -> Path:
    path = folder / "prose.txt"
    path.write_text(text)
    return path


def test_the_name_of_a_person_is_not_in_what_is_shared() -> None:
    config = TrainConfig(model_name_or_path="zen-pico", dataset="chat.txt", me="Anna")
    assert "Anna" not in str(config.public_settings())


def test_a_system_line_with_a_colon_is_nobody(tmp_path: Path) -> None:
    text = (
        '31/12/23, 21:00 - Anna changed the group name to "Trip: Rome"\n'
        "31/12/23, 21:04 - Bob: Hi\n31/12/23, 21:05 - Anna: Yo\n"
    )
    assert chats(read(tmp_path, text)) == [[("user", "Hi"), ("assistant", "Yo")]]


def test_marks_and_files_of_other_languages_are_left_out(tmp_path: Path) -> None:
    text = (
        "31.12.23, 21:04 - Bob: Hallo <Diese Nachricht wurde bearbeitet.>\n"
        "31.12.23, 21:05 - Bob: IMG-2.jpg (Datei angehängt)\nDas Haus\n"
        "31.12.23, 21:06 - Bob: Diese Nachricht wurde gelöscht.\n"
        "31.12.23, 21:06 - Bob: Hai eliminato questo messaggio.\n"
        "31.12.23, 21:06 - Bob: Mensagem apagada\n"
        "31.12.23, 21:06 - Bob: Dit bericht is verwijderd\n"
        "31.12.23, 21:07 - Anna: Schön\n"
    )
    [[(_, asked), (_, answered)]] = chats(read(tmp_path, text))
    assert (asked.split(), answered) == (["Hallo", "Das", "Haus"], "Schön")


@pytest.mark.parametrize(
    "text",
    ["see report.pdf (the draft)", "vector<unsigned int>", "example.com (nice)", 'He: "a: b"'],
)
def test_what_only_looks_like_a_mark_is_learned(tmp_path: Path, text: str) -> None:
    chat = f"31/12/23, 21:04 - Bob: Hi\n31/12/23, 21:05 - Anna: {text}\nmore\n"
    assert chats(read(tmp_path, chat)) == [[("user", "Hi"), ("assistant", f"{text}\nmore")]]


def test_angle_brackets_stay_and_french_dates_are_read(tmp_path: Path) -> None:
    text = '31/12/2023 à 21:04 - Bob: ?\n31/12/2023 à 21:05 - Anna: write <a href="x">\n'
    assert chats(read(tmp_path, text)) == [[("user", "?"), ("assistant", 'write <a href="x">')]]
