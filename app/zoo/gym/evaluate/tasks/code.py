"""HumanEval and MBPP: pass@1 of greedy answers, run in the sandbox of the reward `tests`."""

from zoo.gym.evaluate.grading import by_reward
from zoo.gym.evaluate.tasks.spec import Fields, Row, Spec, text, texts

_PASSED = "pass@1: all tests of the row pass"


def humaneval_row(row: Fields) -> Row:
    """Returns the head of a function to complete."""
    prompt = text(row, "prompt")
    fields = {"prompt": prompt, "test": text(row, "test"), "entry_point": text(row, "entry_point")}
    chat = (
        f"Complete this function. Answer with the whole function in a block of Python.\n\n{prompt}"
    )
    return Row(plain=prompt, chat=chat, fields=fields)


def mbpp_row(row: Fields) -> Row:
    """Returns a function to write, with its tests."""
    asked = text(row, "text" if "text" in row else "prompt")
    tests = texts(row, "test_list")
    fields = {
        "test_list": list(tests),
        "test_setup_code": row.get("test_setup_code") or "",
        "test_imports": row.get("test_imports") or [],
    }
    shown = "\n".join(tests[:3])
    task = f"{asked} Your code should pass these tests:\n\n{shown}"
    plain = f"You are an expert Python programmer, and here is your task: {task}\n[BEGIN]\n"
    chat = f"{task}\n\nAnswer with the code in a block of Python."
    return Row(plain=plain, chat=chat, worked=f"{text(row, 'code')}\n[DONE]", fields=fields)


HUMANEVAL = Spec(
    name="humaneval",
    files=("humaneval*.jsonl", "HumanEval*.jsonl", "humaneval*.parquet"),
    form="rows of prompt, test and entry_point",
    read=humaneval_row,
    how="generate",
    grade=by_reward("tests"),
    reward="tests",
    graded_by=_PASSED,
    stops=("\nclass", "\ndef", "\n#", "\nif", "\nprint"),
    has_shots=False,
)

MBPP = Spec(
    name="mbpp",
    files=("mbpp*.jsonl", "mbpp*.json", "mbpp*.parquet"),
    form="rows of text, code and test_list",
    read=mbpp_row,
    how="generate",
    grade=by_reward("tests"),
    reward="tests",
    graded_by=_PASSED,
    stops=("[DONE]",),
)
