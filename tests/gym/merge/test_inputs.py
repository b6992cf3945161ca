import json
import shutil
from pathlib import Path

from tests.codes import raises
from tests.gym.delta import models_on_disk as disk
from tests.gym.merge.conftest import SHAPES
from zoo.gym.merge.inputs import find_inputs, refuse_unequal, write_input


def find(*paths: Path, base: Path | None = None, needs_base: bool = False) -> object:
    names = list(map(str, paths))
    return find_inputs(names, None if base is None else str(base), needs_base=needs_base)


def test_a_source_twice_is_refused(wholes: list[Path]) -> None:
    with raises("merge.same_twice", r"the same weights: .* twice"):
        find(wholes[0], wholes[0])


def test_a_copy_of_a_source_is_refused(adapters: list[Path], tmp_path: Path) -> None:
    shutil.copytree(adapters[0], tmp_path / "copy")
    with raises("merge.same_twice"):
        find(adapters[0], tmp_path / "copy")


def test_equal_factors_of_another_scale_are_another_source(
    adapters: list[Path], tmp_path: Path
) -> None:
    shutil.copytree(adapters[0], tmp_path / "louder")
    config = tmp_path / "louder" / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"lora_alpha": 99}))
    find(adapters[0], tmp_path / "louder")


def test_fine_tunes_of_two_bases_are_refused(adapters: list[Path], tmp_path: Path) -> None:
    other = disk.write_model(tmp_path / "other", disk.random_arrays(SHAPES, 9), "bfloat16")
    factors = disk.lora_arrays(SHAPES, 3, 5)
    its = disk.write_adapter(tmp_path / "its", factors, 3, base_model_name_or_path=str(other))
    with raises("merge.other_base", "expected fine-tunes of one base, got tiny and other"):
        find(adapters[0], its)


def test_a_base_that_nothing_uses_is_refused(wholes: list[Path], base: Path) -> None:
    with raises("merge.no_effect", "--base: has no effect"):
        find(*wholes, base=base)


def test_a_method_of_changes_needs_a_base(wholes: list[Path]) -> None:
    with raises("merge.no_base"):
        find(*wholes, needs_base=True)


def test_a_delta_of_another_base_is_refused(deltas: list[Path], tmp_path: Path) -> None:
    other = disk.write_model(tmp_path / "other", disk.random_arrays(SHAPES, 9), "bfloat16")
    inputs, _ = find_inputs([str(deltas[0]), str(deltas[1])], str(other), needs_base=True)
    with raises("delta.wrong_base", "another base"):
        write_input(inputs[0], tmp_path / "0")


def unequal(first: Path, second: Path) -> list[str]:
    inputs, _ = find_inputs([str(first), str(second)], None, needs_base=False)
    return refuse_unequal(inputs, [first, second])


def test_other_shapes_are_refused_by_name(wholes: list[Path], tmp_path: Path) -> None:
    shapes = SHAPES | {"model.norm.weight": (8,)}
    other = disk.write_model(tmp_path / "other", disk.random_arrays(shapes, 4))
    with raises("merge.other_shapes", r"model\.norm\.weight \(16,\) and \(8,\)"):
        unequal(wholes[0], other)


def test_another_rotary_base_is_refused_by_name(wholes: list[Path], tmp_path: Path) -> None:
    arrays = disk.random_arrays(SHAPES, 4)
    other = disk.write_model(tmp_path / "other", arrays, rope_theta=5.0)
    with raises("merge.other_settings", "rope_theta"):
        unequal(wholes[0], other)


def with_tokenizer(folder: Path, arrays: disk.Arrays, **tokenizer: object) -> Path:
    disk.write_model(folder, arrays)
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return folder


def test_two_tokenizers_are_refused(tmp_path: Path) -> None:
    one = with_tokenizer(tmp_path / "a", disk.random_arrays(SHAPES, 4), eos_token="<a>")
    two = with_tokenizer(tmp_path / "b", disk.random_arrays(SHAPES, 5), eos_token="<b>")
    with raises("merge.other_tokenizer"):
        unequal(one, two)


def test_two_chat_templates_are_a_note(tmp_path: Path) -> None:
    one = with_tokenizer(tmp_path / "a", disk.random_arrays(SHAPES, 4), chat_template="{{ 1 }}")
    two = with_tokenizer(tmp_path / "b", disk.random_arrays(SHAPES, 5), chat_template="{{ 2 }}")
    assert "different chat templates: the first is kept" in unequal(one, two)[0]
