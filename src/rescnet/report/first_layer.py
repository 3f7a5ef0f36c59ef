"""The sizes of a layer, and the intermediate results of one image in the first layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..config.geometry import count_pairs
from ..config.network import GREY_FILTER_SIZE
from ..network.network import Network
from ..stages.convolution import rectify
from ..stages.pooling import pooling_input
from ..stages.residual import residual
from ..stages.second_order import channel_pairs, second_order_pool
from .evaluation import Evaluation
from .pictures import banks_of, data_uri, diverging, stretched, thumbnail

MAPS_SHOWN = 3


def layer_sizes(network: Network) -> dict[str, Any]:
    """Return the sizes and settings of each stage of a layer."""
    config, (channels, height, width) = network.config, network.image_shape
    grids = config.grids((height, width))
    low, high = network.stack.image_range.ends
    options = ("filters", "rectifier", "pooled_maps", "matrix_log", "scaling", "pooling", "head", "posterior", "ridge")
    return {name: getattr(config, name) for name in (*options, "ceiling")} | {
        "channels": channels,
        "height": height,
        "width": width,
        "first_size": config.size_of_filter(1),
        "size": config.size_of_filter(2),
        "grey_size": GREY_FILTER_SIZE if any(map(config.is_grey, range(2, len(network.layers) + 1))) else 0,
        "banks": [[name, count] for name, count in banks_of(config.bank_of(1), config.filters)],
        "low": low,
        "high": high,
        "block_sizes": list(config.block_sizes),
        "stride": config.block_stride,
        "blocks": [list(grid.shape) for grid, _ in grids],
        "pairs": count_pairs(config.pooled_maps, config.keeps_diagonal),
        "diagonal": config.keeps_diagonal,
        "pyramid": list(config.pyramid),
        "cells": [len(cells) for _, cells in grids],  # of each block size
        "features": config.features((height, width)),
        "rate": network.layers[-1].rate,
        "layers": len(network.layers),
        "stack_depth": min(config.stack_depth or len(network.layers), len(network.layers)),
        "classes": network.classes,
    }


@torch.inference_mode()
def trace_first_layer(network: Network, evaluation: Evaluation, index: int) -> dict[str, Any]:
    """Compute the first layer for one image and return the result of each stage.

    Pictures show the image, the maps with the greatest variation, and the correlations in the middle block. ``outputs``
    and ``residual`` are per class.
    """
    layer = network.layers[0]
    image = evaluation.images.images[index]
    label = int(evaluation.labels[index])
    zeros = layer.weights.new_zeros(1, network.classes)
    maps, _, output = network.stack.step(layer, None, zeros, torch.tensor(image[None]).to(layer.weights.device))
    rectified_maps = rectify(pooling_input(maps, network.config.rectifier))  # (1, d_1, h, w); 2 d_1 for both signs
    target = torch.nn.functional.one_hot(torch.tensor([label]), network.classes).to(output)
    low, high = network.stack.image_range.ends
    strongest = torch.argsort(-rectified_maps[0].flatten(1).std(1), stable=True)[:MAPS_SHOWN].tolist()
    return {
        "index": index,
        "label": label,
        "picture": data_uri(thumbnail(image, low, high)),
        "maps": [
            {"number": number + 1, "picture": data_uri(stretched(rectified_maps[0, number].cpu().numpy()))}
            for number in sorted(strongest)
        ],
        "correlations": data_uri(diverging(_middle_correlations(network, rectified_maps), 1.0)),
        "outputs": [round(float(value), 4) for value in output[0]],
        "residual": [round(float(value), 4) for value in residual(target, output, network.config.ceiling)[0]],
    }


def _middle_correlations(network: Network, maps: Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the correlations of maps (1, d, h, w) in the middle block, shape (d, d), with a diagonal of zeros."""
    config = network.config
    (grid, _), *_ = config.grids((maps.shape[2], maps.shape[3]))
    blocks = second_order_pool(maps, grid, "channel", diagonal=False)  # (1, R, C, pairs)
    middle = blocks[0, grid.shape[0] // 2, grid.shape[1] // 2].double().cpu().numpy()
    rows, columns = (index.numpy() for index in channel_pairs(maps.shape[1], diagonal=False))
    square = np.zeros((maps.shape[1],) * 2)
    square[rows, columns] = square[columns, rows] = middle
    return square
