"""Tests of the MLX engine; they are skipped where MLX is not installed."""

import pytest

pytest.importorskip("mlx_lm", reason="MLX is not installed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "backends/mlx/" in item.path.as_posix():
            item.add_marker(pytest.mark.mlx)
