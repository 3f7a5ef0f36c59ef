"""
Save, export and deploy
=======================

A trained network becomes one file that runs without this library: ONNX for
onnxruntime, or a program for PyTorch.
"""

# %%
# Train and save
# --------------
#
# A model is a folder of JSON and safetensors files. Loading it runs no code from
# it.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import rescnet

folder = Path(tempfile.mkdtemp())
X, y = load_digits(return_X_y=True)
classifier = rescnet.ResCNetClassifier(
    n_layers=1, dtype="float32", random_state=0
).fit(X[:300], y[:300])
rescnet.save(classifier, folder / "digits")
print(sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*")))

# %%
# Export
# ------
#
# Each export runs the file once and compares it with the model. ``export_program``
# writes a ``.pt2`` file for PyTorch in the same way.

model = rescnet.load(folder / "digits")
rescnet.export_onnx(model, folder / "digits.onnx")
print(f"{(folder / 'digits.onnx').stat().st_size / 1e6:.1f} MB")

# %%
# Deploy
# ------
#
# From here on, neither rescnet nor PyTorch is needed. The file takes float32 images
# (n, channels, height, width), **in the units of the training images**: here 0 to
# 16. It returns one output per class. Its metadata names the classes.

import json

import onnxruntime

session = onnxruntime.InferenceSession(folder / "digits.onnx")
names = json.loads(session.get_modelmeta().custom_metadata_map["class_names"])
new = X[1000:1200].reshape(-1, 1, 8, 8).astype(np.float32)
[outputs] = session.run(None, {session.get_inputs()[0].name: new})
answers = np.array(names, int)[outputs.argmax(1)]
print(f"accuracy of the file: {np.mean(answers == y[1000:1200]):.3f}")
difference = abs(outputs - model.outputs(new)).max()
print(f"largest difference to the model: {difference:.0e}")

# %%
# Eight of these digits and their outputs:

figure, axes = plt.subplots(
    2, 8, figsize=(9, 2.8), layout="constrained", height_ratios=(2, 1)
)
for (above, below), image, output in zip(axes.T, new, outputs, strict=False):
    above.imshow(image[0], cmap="gray_r")
    above.axis("off")
    above.set_title(names[output.argmax()])
    below.bar(
        range(10),
        output,
        color=[
            "tab:blue" if value == output.max() else "lightgrey" for value in output
        ],
    )
    below.set(xticks=[0, 9], yticks=[], ylim=(min(0, outputs[:8].min()), 1.1))
figure.suptitle("the file's answer, and its output per class")
plt.show()

# %%
# On the command line: ``rescnet export runs/digits --out digits.onnx``, or
# ``digits.pt2``.
