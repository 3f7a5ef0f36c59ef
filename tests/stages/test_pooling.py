from __future__ import annotations

import naive
import numpy as np
import pytest
import torch

from rescnet.config.geometry import BlockGrid, pyramid_cells
from rescnet.stages.pooling import pyramid_pool

GRIDS = [  # map, block, stride
    ((32, 32), (16, 16), (4, 4)),  # CIFAR-100
    ((32, 32), (16, 16), (1, 1)),  # CIFAR-10
    ((28, 28), (7, 7), (4, 4)),  # MNIST
    ((64, 64), (32, 32), (8, 8)),  # TinyImageNet
    ((12, 18), (3, 5), (2, 3)),
    ((11, 9), (3, 3), (1, 1)),  # odd blocks, stride 1: the last centre lies past PCANet's own range
]


@pytest.mark.parametrize("reduction", ["max", "mean"])
@pytest.mark.parametrize("cells", ["official", "adaptive"])
@pytest.mark.parametrize(("size", "block", "stride"), GRIDS)
@pytest.mark.parametrize("levels", [(4, 2, 1), (1,), (3, 4)])
def test_pyramid_matches_the_loop(size, block, stride, cells, reduction, levels, generator):
    grid = BlockGrid(size, block, stride)
    blocks = torch.randn(2, *grid.shape, 3, generator=generator, dtype=torch.float64)
    found = pyramid_pool(blocks, pyramid_cells(grid, levels, cells), reduction)
    if cells == "official":
        expected = naive.pyramid_official(blocks.numpy(), size, block, stride, levels, reduction)
    else:
        expected = naive.pyramid_adaptive(blocks.numpy(), levels, reduction)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)
