"""Learning rates and grey stacks, layer by layer."""

from __future__ import annotations

import pytest

from rescnet import NetworkConfig


def test_learning_rate_drops_to_the_papers_floors():
    """Ten percent every ten layers (equation 13)."""

    def rate(layer, floor):
        return NetworkConfig(learning_rate=1.0, rate_drop=0.1, rate_drop_every=10, rate_floor=floor).rate_of(layer)

    assert [rate(layer, 0.387) for layer in (1, 10, 11, 20, 21)] == pytest.approx([1, 1, 0.9, 0.9, 0.81])
    assert rate(91, 0.387) == rate(436, 0.387) == pytest.approx(0.9**9)  # CIFAR-100: 0.387
    assert rate(71, 0.478) == rate(512, 0.478) == pytest.approx(0.9**7)  # TinyImageNet: 0.478
    assert rate(90, 0.387) == pytest.approx(0.9**8)
    assert NetworkConfig(learning_rate=0.4, rate_drop=0.0).rate_of(500) == 0.4


def test_every_nth_stack_is_grey():
    config = NetworkConfig(stack_depth=3, grey_stack_every=2, filter_size=2, first_filter_size=5)
    grey = [config.is_grey(layer) for layer in range(1, 13)]
    assert grey == [False] * 3 + [True] * 3 + [False] * 3 + [True] * 3
    assert [config.size_of_filter(layer) for layer in (1, 2, 4, 5, 7, 10)] == [5, 2, 7, 2, 5, 7]
    assert config.kinds_of_layer == [1, 2, 4]
    assert not any(NetworkConfig().is_grey(layer) for layer in range(1, 9))
