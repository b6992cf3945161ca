"""`zoo-gym paths`: the folders of zoo-gym."""

from zoo.gym.cli.options import Json
from zoo.gym.cli.output import Output
from zoo.gym.paths import folders
from zoo.models import cache_folder


def paths(*, as_json: Json = False) -> int:
    """Shows the folders that zoo-gym uses; ZOO_GYM_HOME moves all except the models.

    Args:
        as_json: print one JSON object as stdout's last line
    """
    out, used = Output(as_json), folders()
    answer = {
        "config": used.config,
        "data": used.data,
        "runs": used.runs,
        "cache": used.cache,
        "log": used.log,
        "models": cache_folder(),
    }
    for name, path in answer.items():
        out.answer(f"{name:<8} {path}")
    out.result({name: str(path) for name, path in answer.items()})
    return 0
