"""Operations and bytes counted by formula are those of loops, and of PyTorch's own counter."""

from __future__ import annotations

import itertools

import pytest
import torch

from lab.bench import choose_cases, measure_case
from lab.costs import STAGES, layer_costs, measure_ceilings, stage_rates
from rescnet import ComputeOptions, Config
from rescnet.stages.convolution import convolve

SHAPE, CLASSES, TRAIN, OTHER = (3, 12, 10), 4, 7, 2
CONFIG = Config(
    "digits", filters=5, filter_size=3, block_sizes=(4,), block_stride=2, pyramid=(2, 1), bank="pca"
).complete()


def costs(config=CONFIG, **options):
    return layer_costs(config, SHAPE, CLASSES, TRAIN, OTHER, **options)


def counted(function):
    # Not at the top of the file: it imports Triton, which the kernels' tests must be the first to do.
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        function()
    return counter.get_total_flops()


@pytest.mark.slow
def test_convolution_counts_what_pytorch_counts():
    x, weights = torch.zeros(TRAIN + OTHER, 8, 12, 10), torch.zeros(5, 8, 3, 3)
    assert costs()["convolution"].operations == counted(lambda: convolve(x, weights, torch.zeros(5)))


@pytest.mark.slow
def test_filters_count_products_of_pixels_at_all_shifts():
    size, shifts = 8 * 9, set()
    for a, b in itertools.product(itertools.product(range(3), repeat=2), repeat=2):
        shift = (b[0] - a[0], b[1] - a[1])
        shifts.add(max(shift, (-shift[0], -shift[1])))  # the other way round it is the transpose
    pixels = torch.zeros(TRAIN * 12 * 10, 8)
    assert costs()["filters"].operations - 9 * size**3 == len(shifts) * counted(lambda: pixels.T @ pixels)


@pytest.mark.slow
def test_moments_and_update_count_products_of_features():
    features = CONFIG.features(SHAPE[1:])
    f, z = torch.zeros(TRAIN, features), torch.zeros(TRAIN, 2 * CLASSES)
    gram, cross = counted(lambda: f.T @ f), counted(lambda: z.T @ f)
    assert costs()["moments"].operations == gram * (features + 1) / (2 * features) + cross
    everyone = torch.zeros(TRAIN + OTHER, features)
    assert costs()["update"].operations == counted(lambda: everyone @ torch.zeros(features, 2 * CLASSES))


def test_cholesky_counts_what_loops_count():
    config = Config("digits", filters=4, block_sizes=(8,), pyramid=(1,), head="ridge").complete()
    size = config.features((8, 8))
    operations = 0
    for column in range(size):
        operations += column  # the column's own update is a product and a sum for each of the rows below, and itself
        for _row, _before in itertools.product(range(column + 1, size), range(column)):
            operations += 2
    counted_here = layer_costs(config, (1, 8, 8), 3, 10, 0)["heads"].operations - 2 * size**2 * 3
    assert counted_here == pytest.approx(operations, abs=2 * size**2)


def test_pooling_counts_every_pixel_once_and_every_block():
    ((grid, _),) = CONFIG.grids(SHAPE[1:])
    rows, columns = grid.shape
    per_pair = sum(2 for _ in range(12 * 10)) + sum(4 + 4 for _ in range(rows * columns))
    assert costs()["pooling"].operations == (TRAIN + OTHER) * 10 * per_pair
    twice = costs(features_kept=False)["pooling"].operations
    assert twice == (2 * TRAIN + OTHER) * 10 * per_pair


def test_bytes_follow_the_precision():
    exact, half, double = costs(), costs(precision="balanced"), costs(itemsize=8)
    features = CONFIG.features(SHAPE[1:])
    new_maps, maps, images = (TRAIN + OTHER) * 5 * 120, (TRAIN + OTHER) * 5 * 120, (TRAIN + OTHER) * 3 * 120
    assert exact["convolution"].bytes == 4 * new_maps + 4 * maps + images
    assert half["convolution"].bytes == 2 * new_maps + 2 * maps + images
    assert double["pooling"].bytes == 8 * (TRAIN + OTHER) * (600 + features)
    assert {cost.unit for cost in exact.values()} == {"float32"} and double["heads"].unit == "float64"
    assert half["moments"].unit == half["heads"].unit == "float16" and half["update"].unit == "float32"


def test_the_first_layer_has_no_maps_before_it():
    first = costs(layer=1)
    assert first["scaling"].bytes == TRAIN * 3 * 120
    assert set(first) == set(STAGES)


@pytest.mark.slow
def test_heads_by_rows_count_products_of_images():
    """n images: the lower half of all pairs, D products and sums each, a factor, and what is solved with it."""
    features, outputs = CONFIG.features(SHAPE[1:]), 2 * CLASSES
    pairs = sum(2 * features for row in range(TRAIN) for _ in range(row + 1))
    solved = counted(lambda: torch.zeros(features, TRAIN) @ torch.zeros(TRAIN, outputs)) + 2 * TRAIN**2 * outputs
    by_rows, by_gram = costs(by_rows=True), costs()
    assert by_rows["heads"].operations == pytest.approx(pairs + TRAIN**3 / 3 + solved)
    assert by_rows["moments"].operations == 2 * TRAIN * (features + features * outputs)
    assert by_rows["update"] == by_gram["update"]


def test_ceilings_are_what_a_product_and_a_copy_take():
    found = measure_ceilings(torch.device("cpu"), side=64, copied=2**16)
    assert set(found) == {"float32", "copy"}
    assert 1e7 < found["float32"] < 1e14 and 1e7 < found["copy"] < 1e13


def test_rates_are_quotients_and_have_the_stages_of_a_run():
    case = choose_cases(["digits"], torch.device("cpu"), images=40, filters=4)[0]
    result = measure_case(case, ComputeOptions(device="cpu"), layers=1)
    found = stage_rates(case, result, {"float32": 1e11, "copy": 1e10})
    assert set(found) == set(result["seconds_by_stage"]) == set(STAGES)
    for stage in found.values():
        assert stage["tflops"] * stage["seconds"] * 1e12 == pytest.approx(stage["operations"])
        assert stage["least_seconds"] == max(stage["operations"] / 1e11, stage["bytes"] / 1e10)
