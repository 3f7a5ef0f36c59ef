"""
In a scikit-learn pipeline
==========================

:class:`rescnet.ResCNetClassifier` follows scikit-learn's rules. So it can be
searched over and cross-validated, and it gives its features to any other estimator.
"""

# %%
# A pipeline
# ----------
#
# As a step before others, the network is a transformer: it turns images into at
# most 1,024 features. Here a logistic regression reads them. Standardise them
# first.

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rescnet import Config, ResCNetClassifier

X, X_test, y, y_test = train_test_split(
    *load_digits(return_X_y=True), train_size=200, random_state=0
)
pipeline = make_pipeline(
    ResCNetClassifier(n_layers=1, config=Config(), random_state=0),
    StandardScaler(),
    LogisticRegression(max_iter=500),
)

# %%
# Search its options
# ------------------
#
# A ``Config`` holds the options that are set, here none. Of the step
# ``rescnetclassifier``, ``config__filters`` is the option ``filters``. The search
# fits the whole pipeline for each value, on two folds.

numbers = [2, 4, 8, 16]
search = GridSearchCV(
    pipeline, {"rescnetclassifier__config__filters": numbers}, cv=2
).fit(X, y)
print("chosen:", search.best_params_)

# %%
# Beside it, the same regression on pixels. With eight filters or more, the features
# win.

pixels = cross_val_score(
    make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)), X, y, cv=2
)

figure, axis = plt.subplots(figsize=(7, 3.6), layout="constrained")
results = search.cv_results_
for fold, marker in enumerate("^v"):
    axis.plot(
        numbers,
        100 * results[f"split{fold}_test_score"],
        marker,
        color="tab:blue",
        alpha=0.5,
    )
axis.plot(
    numbers,
    100 * results["mean_test_score"],
    "-",
    color="tab:blue",
    label="logistic regression on features",
)
axis.axhline(
    100 * pixels.mean(),
    color="tab:orange",
    ls="--",
    label="logistic regression on pixels",
)
axis.set(
    xscale="log",
    xticks=numbers,
    xticklabels=numbers,
    xlabel="filters",
    ylabel="accuracy of both folds, %",
)
axis.minorticks_off()
axis.legend()
plt.show()

# %%
# The fitted pipeline predicts new images like any other.

print(f"accuracy on 200 new digits: {search.score(X_test[:200], y_test[:200]):.3f}")
