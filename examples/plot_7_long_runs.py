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
# With ``out``, a run saves each layer once it is finished. Here it stops after
# three layers of eight, as if the machine was switched off.

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
config = rescnet.Config(
    "digits", layers=8, filters=10, learning_rate=0.3, stop_at_zero_error=False
)

folder = Path(tempfile.mkdtemp()) / "run"
rescnet.train(**data, config=config.but(layers=3), out=folder)

# %%
# The folder has one file per layer, and a history with a checksum per line. So a
# damaged file is noticed.

for path in sorted(folder.rglob("*.*")):
    print(f"{path.stat().st_size:8,} bytes  {path.relative_to(folder)}")

# %%
# The next day we load it, and add the other five layers.

saved = rescnet.load(folder)
continued = rescnet.train(**data, config=config, start=saved)

# %%
# A run without interruption gives the same network.

whole = rescnet.train(**data, config=config)
same = [
    torch.equal(one, other)
    for one, other in zip(
        whole.network.learned(), continued.network.learned(), strict=True
    )
]
print(f"{sum(same)} of {len(same)} tensors are equal, bit for bit")

axes = continued.history.plot()
axes.axvline(3.5, color="grey", ls=":")
axes.text(3.4, axes.get_ylim()[0] + 1, "interrupted", ha="right")
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
