"""
Long runs and several machines
==============================

A run may be interrupted at any time. Continued, it ends with the network it would
have had, bit for bit.
"""

# %%
# Interrupt a run, and continue it
# --------------------------------
#
# Here we stop after three layers of eight, save the model, and pretend that the
# machine was switched off.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

import rescnet

digits = load_digits()
images, labels = digits.images[:, None], digits.target
data = {
    "images": images[:300],
    "labels": labels[:300],
    "test": (images[300:600], labels[300:600]),
}


def settings(layers):
    return rescnet.make_config(
        "digits",
        layers=layers,
        filters=10,
        learning_rate=0.3,
        stop_at_zero_error=False,
    )


folder = Path(tempfile.mkdtemp()) / "run"
network, history = rescnet.train(**data, config=settings(3))
rescnet.save(
    folder, rescnet.Model(network, history, class_names=tuple("0123456789"))
)

# %%
# The folder has one file per layer, and a history with a checksum per line. So a
# damaged file is noticed.

for path in sorted(folder.rglob("*.*")):
    print(f"{path.stat().st_size:8,} bytes  {path.relative_to(folder)}")

# %%
# The next day we load it and add five layers.

saved = rescnet.load(folder)
continued, continued_history = rescnet.train(
    **data, config=settings(8), start=(saved.network, saved.history)
)

# %%
# A run without interruption gives the same network.

whole, whole_history = rescnet.train(**data, config=settings(8))
same = [
    torch.equal(one, other)
    for one, other in zip(whole.learned(), continued.learned(), strict=True)
]
print(f"{sum(same)} of {len(same)} tensors are equal, bit for bit")

figure, axis = plt.subplots(figsize=(7, 3.6), layout="constrained")
for records, style, label in (
    (whole_history, {"color": "lightgrey", "lw": 8}, "in one go"),
    (history, {"color": "tab:blue", "marker": "o"}, "before the interruption"),
    (continued_history[3:], {"color": "tab:orange", "marker": "o"}, "continued"),
):
    axis.plot(
        [r.layer for r in records],
        [100 * r.test_accuracy for r in records],
        label=label,
        **style,
    )
axis.set(xlabel="layer", ylabel="test accuracy, %", xticks=range(1, 9))
axis.legend()
plt.show()

# %%
# On the command line
# -------------------
#
# There every finished layer is on disk already, so a run survives Ctrl-C, ``kill
# -9`` and a full disk:
#
# .. code-block:: sh
#
#     rescnet train cifar10 --out runs/cifar10
#     rescnet train --resume runs/cifar10               # after an interruption
#     rescnet train --resume runs/cifar10 --layers 200  # add layers
#
# Several GPUs, or several machines, share the images. ``torchrun`` starts one
# worker per GPU:
#
# .. code-block:: sh
#
#     torchrun --nproc-per-node 8 -m rescnet train cifar10 --out runs/cifar10
#     torchrun --nnodes 2 --nproc-per-node 8 \
#         --rdzv-backend c10d --rdzv-endpoint HOST:29500 -m rescnet train cifar10
#
# Workers exchange sums only, and a run may continue with another number of them.
# :doc:`Scaling </docs/scaling>` says how much memory a run takes and what workers
# send.
