"""Learning rates and grey stacks, layer by layer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescnet import NetworkConfig

GREY = NetworkConfig(filters=5, block_sizes=(6,), block_stride=2, pyramid=(2, 1), grey_stack_every=1)


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
    config = replace(GREY, stack_depth=3, grey_stack_every=2, filter_size=2)
    grey = [config.is_grey(layer) for layer in range(1, 13)]
    assert grey == [False] * 3 + [True] * 3 + [False] * 3 + [True] * 3
    assert [config.size_of_filter(layer) for layer in (1, 2, 4, 5, 7, 10)] == [2, 2, 7, 2, 2, 7]
    assert config.kinds_of_layer == [1, 2, 4]
    assert not any(replace(GREY, grey_stack_every=0).is_grey(layer) for layer in range(1, 9))


@pytest.mark.parametrize(
    ("options", "channels", "size", "message"),
    [
        ({}, 1, 12, "grey_stack_every must be 0 on grey images, got 1"),
        ({"grey_stack_every": 2}, 3, 12, "stack_depth must be set with grey_stack_every 2"),
        ({}, 3, 6, "grey_stack_every must be 0 on images of 6×6: filters of a grey stack are 7×7"),
        (
            {"stack_depth": 2, "grey_stack_every": 2, "filters": 50, "first_filter_size": 5, "bank": "pca"},
            3,
            12,
            "filters must be at most 49 PCA filters for patches of 49 numbers, got 50",
        ),
    ],
)
def test_impossible_grey_stacks_are_refused(options, channels, size, message):
    with pytest.raises(ValueError, match=message):
        replace(GREY, **options).check_images(channels, (size, size))
