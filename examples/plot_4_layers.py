r"""
How layers correct each other
=============================

A ResCNet is a chain of layers. Each is learned once, in closed form, from what the
layers before it got wrong. This tutorial follows one digit through the paper's
network, stage by stage.
"""

# %%
# Train the paper's network
# -------------------------
#
# The preset ``digits`` is the paper's network for tiny images, without a readout.
# Here it has six layers of 20 filters.

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from rescnet import Config, train

digits = load_digits()
images = torch.tensor(digits.images[:, None])  # (n, channels, height, width)
labels = torch.tensor(digits.target)
x, x_test, y, y_test = train_test_split(
    images, labels, train_size=400, test_size=300, random_state=1
)

config = Config("digits", layers=6, stop_at_zero_error=False)
model = train(x, y, config, test=(x_test, y_test))
model.history.plot()
plt.show()

# %%
# Filters
# -------
#
# Half of the filters are principal components: the directions in which patches of
# 5×5 pixels vary most. The other half are *stacked-LDA* filters. Each separates two
# patches of one class from 32 patches of other classes, drawn at random.

BLUE, RED, GREY = "#2166ac", "#b2182b", "#bbbbbb"


def show_row(axes, pictures, limit):
    for axis, picture in zip(axes, pictures, strict=True):
        axis.imshow(picture, cmap="RdBu_r", vmin=-limit, vmax=limit)
        axis.set(xticks=[], yticks=[])


network = model.network
filters = network.layers[0].weights[:, 0]  # (20, 5, 5)
figure, axes = plt.subplots(2, 10, figsize=(9, 2.1), layout="constrained")
for row, name, half in zip(
    axes, ("PCA", "stacked-LDA"), filters.chunk(2), strict=True
):
    show_row(row, half, limit=float(filters.abs().max()))
    row[0].set_ylabel(name)
figure.suptitle("filters of layer 1 (red positive, blue negative)")
plt.show()

# %%
# From maps to features
# ---------------------
#
# Convolution gives 20 maps. They are rectified, and in blocks of 4×4 pixels each
# pair of maps is correlated. The correlations of all blocks, averaged over a
# spatial pyramid, are the features of the layer.

from rescnet.stages.convolution import rectify
from rescnet.stages.second_order import channel_pairs, second_order_pool

with torch.inference_mode():
    maps = network.stack.maps(network.layers[0], None, x_test[:1])  # (1, 20, 8, 8)
[(grid, cells)] = network.config.grids((8, 8))
blocks = second_order_pool(
    rectify(maps), grid, diagonal=False
)  # (1, 5, 5, 190): pairs of maps in each block
correlations = torch.eye(20, dtype=blocks.dtype)
pairs = channel_pairs(20, diagonal=False)
correlations[pairs] = correlations.T[pairs] = blocks[0, 2, 2]

figure = plt.figure(figsize=(9, 2.8), layout="constrained")
left, middle, right = figure.subfigures(1, 3, width_ratios=(2, 4, 3))
axis = left.subplots()
axis.imshow(x_test[0, 0], cmap="gray_r")
axis.add_patch(plt.Rectangle((1.5, 1.5), 4, 4, fill=False, color=RED, lw=2))
axis.set(title="a digit and one block", xticks=[], yticks=[])
for row, part in zip(middle.subplots(4, 5), maps[0].chunk(4), strict=True):
    show_row(row, part, limit=float(maps.abs().max()))
middle.suptitle("its 20 maps")
axis = right.subplots()
drawn = axis.imshow(correlations, cmap="RdBu_r", vmin=-1, vmax=1)
axis.set(xlabel="map", ylabel="map", xticks=[0, 10, 19], yticks=[0, 10, 19])
right.suptitle("correlations in the block")
right.colorbar(drawn, shrink=0.7)
plt.show()

# %%
# The residual
# ------------
#
# For each training image, a layer asks three questions:
#
# - How far is the output from its target? :math:`R = \lambda Y - \tilde Y^{(i-1)}`.
# - Which class is farthest off? The new label is :math:`T = \arg\max |R|`.
# - In which direction? The sign is :math:`s = \mathrm{sign}(R_T)`.
#
# From the features, LDA learns to predict label and sign. Its posteriors correct
# the output:
#
# .. math::
#     \tilde Y^{(i)} = \tilde Y^{(i-1)} + \alpha \left[ \frac{n_p}{N} {\tilde Y{}}_p
#     - \frac{n_n}{N} {\tilde Y{}}_n \right]
#
# Among test images that are wrong after layer 1 and right at the end, here is the
# one whose true class gained most on its strongest rival, at layers 2 and 3. A
# network does not know the residual of a new image: it predicts it.

from rescnet.stages.residual import labels_and_signs, residual

with torch.inference_mode():
    staged = torch.stack(
        list(network.stack.staged_outputs(x_test))
    )  # after layer 1, 2, …: (6, n, 10)
true_class = torch.nn.functional.one_hot(y_test, 10).bool()
margin = staged[:, true_class] - staged.masked_fill(true_class, -torch.inf).amax(
    2
)  # (6, n)
chosen = int(
    torch.where(
        (margin[0] < 0) & (margin[-1] > 0), margin[-1] - margin[0], -torch.inf
    ).argmax()
)

figure, axes = plt.subplots(
    2, 4, figsize=(9, 3.6), sharex=True, sharey=True, layout="constrained"
)
for row, layer in zip(axes, (2, 3), strict=True):
    before, after = staged[layer - 2, [chosen]], staged[layer - 1, [chosen]]
    wrong = residual(true_class[[chosen]].double(), before, network.config.ceiling)
    label, positive = labels_and_signs(wrong)
    panels = {
        f"output of layer {layer - 1}": before,
        f"residual: {'raise' if positive else 'lower'} class {int(label)}": wrong,
        f"correction by layer {layer}": after - before,
        f"output of layer {layer}": after,
    }
    for axis, (title, values) in zip(row, panels.items(), strict=True):
        axis.bar(
            range(10),
            values[0],
            color=[RED if value < 0 else BLUE for value in values[0]],
        )
        axis.axhline(0, color="black", lw=0.5)
        axis.set_title(title, fontsize=9)
        axis.set_xticks(range(10))
figure.supxlabel(f"class (the image is a {int(y_test[chosen])})")
plt.show()

# %%
# All layers
# ----------
#
# The same image through all six layers: layer 2 decides, and the later ones hardly
# change it.

first, last = int(staged[0, chosen].argmax()), int(staged[-1, chosen].argmax())

figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 2.8), width_ratios=(1, 3), layout="constrained"
)
left.imshow(x_test[chosen, 0], cmap="gray_r")
left.set(title=f"a {int(y_test[chosen])}", xticks=[], yticks=[])
steps = range(1, len(network.layers) + 1)
for number in range(10):
    colour = BLUE if number == last else RED if number == first else GREY
    right.plot(
        steps,
        staged[:, chosen, number],
        "o-",
        ms=3,
        color=colour,
        zorder=1 + (colour != GREY),
    )
for number, colour in ((last, BLUE), (first, RED)):
    right.text(
        len(network.layers) + 0.1,
        staged[-1, chosen, number],
        number,
        color=colour,
        va="center",
        weight="bold",
    )
right.set(title="output of each class", xlabel="layer", xticks=steps)
plt.show()

# %%
# ``rescnet report RUN`` draws such pictures for any trained model, on one HTML
# page.
