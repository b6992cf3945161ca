"""The lines of a model card load the result."""

from pathlib import Path

import pytest

from zoo.gym import TrainConfig, run_training
from zoo.gym.train.result.card import HERE
from zoo.models import PICO, pico_folder


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
@pytest.mark.parametrize("kind", ["lora", "full"])
def test_the_code_of_a_card_loads_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path))
    rows = [{"prompt": f"Say {n}.", "completion": f"{n} it is"} for n in range(8)]
    result = run_training(
        TrainConfig(
            model_name_or_path=PICO,
            dataset=rows,
            finetuning_type=kind,
            max_steps=2,
            retention=False,
        )
    )
    card = (result.model / "README.md").read_text()
    code = card.partition("```python\n")[2].partition("```")[0]
    code = code.replace(HERE, str(result.model)).replace(f'"{PICO}"', f'"{pico_folder()}"')
    names: dict[str, object] = {}
    exec(code, names)
    assert names["model"].num_parameters() > 0  # type: ignore[attr-defined]
    assert f"zoo-gym chat --{'adapter_name_or_path' if kind == 'lora' else 'model'} " in card
