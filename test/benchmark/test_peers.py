"""The peers have the size that is claimed, and do the work that is claimed."""

from __future__ import annotations

import pytest
import torch

from floorgent_ros.benchmark.peers import PlainUNet, ResidualUNet, operations, parameters


def test_sizes() -> None:
    with torch.device("meta"):
        large, small = ResidualUNet(), PlainUNet()
    assert parameters(large) == pytest.approx(51.5e6, rel=0.01)
    assert parameters(small) == pytest.approx(0.7e6, rel=0.05)


def test_operations_grow_with_the_area() -> None:
    with torch.device("meta"):
        network = ResidualUNet()
    assert operations(network, 256) == pytest.approx(4 * operations(network, 128), rel=0.01)
    only = torch.nn.Conv2d(3, 5, 3, padding=1)
    assert operations(only, 16) == 2 * 16 * 16 * 3 * 5 * 9


@pytest.mark.parametrize("network", [ResidualUNet((1, 1, 1, 1), 8, (16, 8, 8, 4, 4)), PlainUNet((4, 8, 8))])
def test_one_logit_a_cell(network: torch.nn.Module) -> None:
    with torch.inference_mode():
        assert network.eval()(torch.zeros(1, 3, 64, 64)).shape == (1, 1, 64, 64)
