import pytest

from tests.codes import raises
from zoo.gym.errors import InputError
from zoo.gym.tune.space import Range, parse_ranges, split_ranges


def parsed(*words: str, stage: str = "sft") -> tuple[Range, ...]:
    texts, rest = split_ranges(words)
    assert rest == []
    return parse_ranges(texts, stage)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("weight_decay=0..0.1", Range("weight_decay", "float", 0, 0.1)),
        ("lora_dropout=.0...5", Range("lora_dropout", "float", 0, 0.5)),
        ("learning_rate=1e-4..1e-2", Range("learning_rate", "float", 1e-4, 1e-2, log=True)),
        ("learning_rate=1e-3..1e-2", Range("learning_rate", "float", 1e-3, 1e-2)),
        ("lora_rank=2..64", Range("lora_rank", "int", 2, 64)),
        ("lora_rank=1..128", Range("lora_rank", "int", 1, 128, log=True)),
        ("lora_rank=4,8,16", Range("lora_rank", "choice", choices=(4, 8, 16))),
        ("use_rslora=true,false", Range("use_rslora", "choice", choices=(True, False))),
        ("optim=adamw,sgd", Range("optim", "choice", choices=("adamw", "sgd"))),
    ],
)
def test_a_range_is_read_by_the_type_of_its_setting(word: str, expected: Range) -> None:
    assert parsed(word) == (expected,)


def test_other_words_are_those_of_training() -> None:
    words = ["a.jsonl", "lora_target=q_proj,v_proj", "report_to=tensorboard,wandb"]
    words += ["dataset=data/../a.jsonl", "seed=3", "model=zen-pico"]
    assert split_ranges(words) == ({}, words)


def test_the_other_spelling_of_a_setting_is_the_setting() -> None:
    assert split_ranges(["epochs=1..3"])[0].keys() == {"num_train_epochs"}


@pytest.mark.parametrize(
    ("word", "refused"),
    [
        ("lora_rank=8..2", "expected the lower end first, got 8..2"),
        ("lora_rank=2..2", "expected the lower end first"),
        ("lora_rank=1.5..4", "expected whole numbers, got '1.5'"),
        ("learning_rate=slow..fast", "expected numbers, got 'slow'"),
        ("learning_rate=1e-4..inf", "expected numbers, got 'inf'"),
        ("lora_rank=4,4", "expected different choices"),
        ("use_rslora=true,maybe", "expected true,false, got 'maybe'"),
        ("optim=a..b", "expected choices separated by commas, got the range a..b"),
        ("learning_rte=1..2", "no such setting. Did you mean 'learning_rate'?"),
        ("beta=0.1..0.5", "no such setting of stage sft"),
        ("val_size=0.1..0.5", "trials with different values could not be compared"),
        ("cutoff_len=16..64", "could not be compared"),
        ("mix_strategy=concat,interleave_under", "could not be compared"),
        ("seed=1..9", "expected a setting that changes what is learned"),
        ("save_steps=1..9", "expected a setting that changes what is learned"),
    ],
)
def test_what_cannot_be_searched_is_refused_by_name(word: str, refused: str) -> None:
    with pytest.raises(InputError) as caught:
        parsed(word)
    assert refused in caught.value.message
    assert caught.value.message.startswith(word.partition("=")[0])


def test_what_a_loss_means_is_not_searched() -> None:
    with raises(
        "tune.not_searched", "use_dft_loss: expected a setting that leaves the measurement"
    ):
        parsed("use_dft_loss=true,false")


def test_without_a_range_there_is_nothing_to_search() -> None:
    with raises("tune.no_ranges"):
        parsed()


def test_a_setting_twice_is_refused() -> None:
    with raises("tune.given_twice"):
        split_ranges(["lora_rank=1..2", "lora_rank=4,8"])
