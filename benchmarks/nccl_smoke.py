"""NCCL with one process on one GPU: what workers exchange goes through it, and the network is that of a plain run.

    torchrun --standalone --nproc-per-node 1 benchmarks/nccl_smoke.py            # --device cpu: the same through gloo

``rescnet train`` under a ``torchrun`` of one worker asks nobody; here the worker exchanges with itself, so every tensor
meets NCCL: halves and doubles, counts, heads, bytes of a run, with maps on the GPU and on the host. Two workers on one
GPU NCCL refuses; on two GPUs: ``torchrun --nproc-per-node 2 -m rescnet train cifar10 --layers 3``.
"""

from __future__ import annotations

import argparse

import torch

from rescnet import ComputeOptions, NetworkConfig
from rescnet.training.distributed.workers import Workers, join_workers
from rescnet.training.trainer import Trainer

CASES = [
    ({}, {}),
    ({}, {"maps": "host"}),
    ({"bank": "lda + stacked-lda", "augment": "flip + shift 1", "average": "flip"}, {"maps": "host", "gram": "tf32"}),
    ({"head": "ridge", "patch_samples": 5000, "scaling": "channel"}, {"precision": "exact"}),
    ({"sign_samples": "own"}, {"dtype": "float64", "maps": "file"}),
]


def grown(options: dict[str, object], compute: dict[str, object], device: str, workers: Workers) -> list[torch.Tensor]:
    """Return the layers' tensors after three layers on 2,000 random images of ten classes."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(2000) % 10
    images = (torch.rand(2000, 3, 32, 32, generator=generator) * 128 + 12 * labels.view(-1, 1, 1, 1)).byte()
    config = NetworkConfig(filters=20, stop_at_zero_error=False, **options)  # type: ignore[arg-type]
    machine = ComputeOptions(device=device, **compute)  # type: ignore[arg-type]
    trainer = Trainer(images[:1800], labels[:1800], config, None, (images[1800:], labels[1800:]), machine, workers)
    for _ in range(3):
        trainer.add_layer()
    return [tensor for layer in trainer.network.layers for tensor in (layer.weights, layer.bias, layer.head.weights)]


def main() -> None:
    """Train each case with and without the engine and compare the bits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    device = parser.parse_args().device
    with join_workers(device, alone=True) as workers:
        print(f"{torch.distributed.get_backend()} on {workers.device}, torch {torch.__version__}")
        assert workers.broadcast_bytes(bytes(range(256)) * 10**6) == bytes(range(256)) * 10**6
        for options, compute in CASES:
            before = workers.exchanged
            found, plain = (grown(options, compute, device, who) for who in (workers, Workers()))
            apart = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(found, plain, strict=True))
            sent = (workers.exchanged - before) / 1e6
            outcome = f"DIFFERENT by {apart:.1e}" if apart else "same bits"
            print(f"{outcome}, {sent:.0f} MB exchanged: {options} {compute}", flush=True)


if __name__ == "__main__":
    main()
