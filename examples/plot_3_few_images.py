"""
With few images
===============

Closed form helps most where images are few: there is nothing to stop early and no
learning rate to find. This tutorial draws a learning curve, beside two classifiers
of pixels.
"""

# %%
# Accuracy over images per class
# ------------------------------
#
# All three learn from the same digits, and are measured on the same 150 others.

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from rescnet import ResCNetClassifier

X, X_test, y, y_test = train_test_split(
    *load_digits(return_X_y=True), test_size=150, random_state=0
)
sizes = (2, 5, 15, 40)
models = {
    "ResCNet": ResCNetClassifier(random_state=0),
    "SVC on pixels": SVC(C=10),
    "random forest on pixels": RandomForestClassifier(100, random_state=0),
}
curves = {name: [] for name in models}
for size in sizes:
    chosen, _ = train_test_split(
        range(len(y)), train_size=10 * size, stratify=y, random_state=0
    )
    for name, model in models.items():
        curves[name].append(model.fit(X[chosen], y[chosen]).score(X_test, y_test))

figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
for (name, curve), style in zip(curves.items(), ("o-", "s--", "^:"), strict=True):
    axis.plot(sizes, [100 * accuracy for accuracy in curve], style, label=name)
axis.set(
    xscale="log",
    xticks=sizes,
    xticklabels=sizes,
    xlabel="training images per class",
    ylabel="test accuracy, %",
)
axis.minorticks_off()
axis.grid(alpha=0.3)
axis.legend()
plt.show()

# %%
# Is the difference real?
# -----------------------
#
# With 150 test images, a 95 % interval is several points wide. The library prints
# one beside every accuracy.

from rescnet.base.intervals import show_interval

for name, curve in curves.items():
    interval = show_interval(curve[-1], len(y_test))
    print(f"{name:24} {curve[-1]:.3f}  95 % interval {interval}")

# %%
# On your own images, ``rescnet curve my-photos/ --images-per-class 5,10,20`` draws
# such a curve.
