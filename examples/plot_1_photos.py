"""
Your own photos
===============

A folder with one sub-folder of images per class is all you need. Photos may have
different sizes and formats.
"""

# %%
# Photos in folders
# -----------------
#
# You have photos already, so skip this part. Here we draw some: brick walls, tiles
# and pebbles, of any size and colour.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

rng = np.random.default_rng(0)


def draw(kind):
    height, width = rng.integers(60, 121, 2)
    y, x = np.mgrid[:height, :width] / 60
    angle, scale = rng.uniform(-0.5, 0.5), rng.uniform(4, 7)
    y, x = (
        y * np.cos(angle) + x * np.sin(angle),
        x * np.cos(angle) - y * np.sin(angle),
    )
    if kind == "pebbles":
        centres = rng.uniform(-1, 3, (150, 2))
        distances = np.hypot(
            y[..., None] - centres[:, 0], x[..., None] - centres[:, 1]
        )
        nearest, second = np.partition(distances, 1)[..., :2].transpose(2, 0, 1)
        shade = np.clip(6 * (second - nearest), 0, 1)
    else:
        offset = (
            np.floor(scale * y) if kind == "bricks" else 0
        )  # every other row of bricks is moved by half a brick
        shade = np.minimum(scale * y % 1, (scale * x + offset) / 2 % 1 * 2) > 0.15
    dark, light = rng.uniform(0, 120, 3), rng.uniform(120, 255, 3)
    pixels = (
        dark
        + shade[..., None] * (light - dark)
        + rng.normal(0, 60, (height, width, 3))
    )
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


photos = Path(tempfile.mkdtemp())
for kind in ("bricks", "pebbles", "tiles"):
    (photos / kind).mkdir()
    for number in range(15):
        draw(kind).save(photos / kind / f"{number:02}.jpg")
(photos / "tiles" / "broken.jpg").write_bytes(b"half a download")

# %%
# Read them
# ---------
#
# :func:`rescnet.data.load` brings all photos to one size, and its notes name every
# problem. On the command line, ``rescnet check my-photos/`` prints the same.

from rescnet import ResCNetClassifier, data

photo_set = data.load(photos, image_size=(32, 32))
print(photo_set.class_names, photo_set.train.images.shape)
print(*photo_set.notes, sep="\n")

# %%
# Train
# -----
#
# There is nothing to choose. The network follows from the images, and a trial
# decides whether mirror images help. The accuracy on new photos is estimated by
# leaving each training photo out, so no photo has to be held out.

names = np.array(photo_set.class_names)
classifier = ResCNetClassifier(random_state=0).fit(
    photo_set.train.images, names[photo_set.train.labels]
)
network, history = classifier.model_.network, classifier.model_.history
print(network)
print(f"leave-one-out accuracy: {history.readout.loo_accuracy:.0%}")

# %%
# Predict new photos
# ------------------
#
# A fitted classifier takes file names. It reads each file in the size of the
# training images.

new = Path(tempfile.mkdtemp())
truth = ["bricks", "pebbles", "tiles"] * 4
files = [new / f"{number:02}.jpg" for number in range(len(truth))]
for file, kind in zip(files, truth, strict=True):
    draw(kind).save(file)

probabilities = classifier.predict_proba(files)

figure, axes = plt.subplots(2, 6, figsize=(9, 3.6), layout="constrained")
for axis, file, kind, row in zip(
    axes.flat, files, truth, probabilities, strict=True
):
    best = row.argmax()
    name = classifier.classes_[best]
    axis.imshow(Image.open(file).resize((80, 80)))
    axis.set_title(
        f"{name}, {row[best]:.0%}",
        fontsize=9,
        color="black" if name == kind else "crimson",
    )
    axis.axis("off")
figure.suptitle("new photos, their class and its probability; mistakes are red")
plt.show()

# %%
# The same on the command line:
#
# .. code-block:: sh
#
#     rescnet check my-photos/
#     rescnet train my-photos/ --out runs/photos
#     rescnet predict runs/photos new/*.jpg
#     rescnet report runs/photos other-photos/  # one sub-folder per class
