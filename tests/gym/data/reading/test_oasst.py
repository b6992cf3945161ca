"""Message trees."""

from typing import Any

from zoo.gym.data.reading.formats import best_path, parse_row


def ask(text: str, *replies: Any, **more: Any) -> dict[str, Any]:
    return {"role": "prompter", "text": text, "replies": list(replies), **more}


def answer(text: str, *replies: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "text": text, "replies": list(replies), **more}


def path_of(root: Any) -> list[Any]:
    return [node["text"] for node in best_path(root)]


def test_the_path_follows_the_lowest_rank() -> None:
    assert path_of(ask("q", answer("second", rank=1), answer("first", rank=0))) == ["q", "first"]


def test_a_ranked_reply_is_better_than_one_without_rank() -> None:
    assert path_of(ask("q", answer("none"), answer("last", rank=9))) == ["q", "last"]


def test_equal_replies_keep_the_order_of_the_file() -> None:
    assert path_of(ask("q", answer("a"), answer("b"))) == ["q", "a"]


def test_a_question_after_the_last_answer_is_cut() -> None:
    assert path_of(ask("q", answer("a", ask("and then?")))) == ["q", "a"]


def test_a_deleted_reply_is_passed_over() -> None:
    replies = (answer("gone", rank=0, deleted=True), answer("stays", rank=1))
    assert path_of(ask("q", *replies)) == ["q", "stays"]


def test_a_tree_without_an_answer_has_no_path() -> None:
    assert path_of(ask("q")) == []


def test_a_deep_tree_is_read_to_its_end() -> None:
    tree = answer("last")
    for _ in range(3000):
        tree = answer("a", ask("q", tree))
    assert len(path_of(ask("first", tree))) == 6002


def test_a_tree_becomes_a_chat_of_users_and_assistants() -> None:
    row = {"message_tree_id": "1", "prompt": ask("q", answer("a", ask("r", answer("b"))))}
    name, (record,) = parse_row(row, "f:1")
    assert name == "OASST tree"
    assert [(m.role, m.content) for m in record.messages] == [
        ("user", "q"),
        ("assistant", "a"),
        ("user", "r"),
        ("assistant", "b"),
    ]
