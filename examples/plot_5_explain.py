"""
Explain a prediction
====================

Why this answer, and not another? Every part of it can be traced: to the layers, to
places in the image, and to the training images that it resembles.
"""

# %%
# Find a doubtful image
# ---------------------
#
# The network learns from 300 digits. Among 100 others, we look at the one whose
# answer is least certain.

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from rescnet import ResCNetClassifier

X, y = load_digits(return_X_y=True)
classifier = ResCNetClassifier(random_state=0).fit(X[:300], y[:300])
new, truth = X[400:500], y[400:500]
doubtful = classifier.predict_proba(new).max(1).argmin()

# %%
# Ask why
# -------
#
# A doubtful answer shows as outputs that are close to each other, and as nearest
# training images of several classes.

why = classifier.explain(new[doubtful])
print(why)
print("it is a", truth[doubtful])

# %%
# Look at it
# ----------
#
# Above is a map per class. Red pixels speak for it, since they raise its output;
# blue ones speak against it. Pixels for it, pixels against it and the intercept
# add up to the output exactly, because correlations are means over pixels. Below
# are the outputs after each layer, and the parts of the output that come from
# single training images: for the answer if positive, against it if negative.

why.plot()
plt.show()

# %%
# See the training images
# -----------------------
#
# The model knows them by their index. The images themselves are not stored in it.

figure, axes = plt.subplots(1, 6, figsize=(9, 1.9), layout="constrained")
axes[0].imshow(new[doubtful].reshape(8, 8), cmap="gray_r")
axes[0].set_title("the image")
for axis, image in zip(axes[1:], why.nearest, strict=True):
    axis.imshow(X[image.index].reshape(8, 8), cmap="gray_r")
    axis.set_title(f"a {image.label}, {image.similarity:.2f}")
for axis in axes:
    axis.axis("off")
figure.suptitle("the nearest training images and their similarity")
plt.show()

# %%
# The same for a file, on the command line:
#
# .. code-block:: sh
#
#     rescnet explain runs/photos new/1.jpg --plot why.png
