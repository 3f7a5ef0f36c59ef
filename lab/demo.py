"""``make demo``: small layers correct each other on few digits, beside a baseline trained on the same images.

python -m lab.demo
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
import torch

from rescnet import NetworkConfig, data
from rescnet.base.intervals import show_interval
from rescnet.compare.baselines import fit_svc
from rescnet.data.splits import first_of_each_class
from rescnet.training.run import TrainingRun

IMAGES_PER_CLASS = 20
CONFIG = NetworkConfig(
    layers=20,
    filters=6,
    bank="pca + stacked-lda",
    first_filter_size=3,
    filter_size=3,
    rectifier="both",
    block_sizes=(4,),
    block_stride=2,
    pyramid=(1,),
    pooling="mean",
    matrix_log=True,
    head="ridge",
    ridge=0.5,
    learning_rate=0.3,
    stop_at_zero_error=False,
)


def main() -> None:
    """Train, and print one line per layer and one about the baseline."""
    digits = data.load("digits").train
    chosen = first_of_each_class(digits.labels, IMAGES_PER_CLASS)
    training, test = digits.subset(chosen), digits.subset(np.setdiff1d(np.arange(len(digits)), chosen))
    print(f"{len(training)} training images, {len(test):,} test images: digits of 8×8 pixels, 10 classes")
    print("layer  test accuracy, bars from 50 %")
    start = perf_counter()
    share = 0.0
    for record in TrainingRun(training.images, training.labels, CONFIG, test=(test.images, test.labels)):
        share = record.test_accuracy or 0.0
        print(f"{record.layer:5}  {100 * share:6.2f} %  {'█' * round(80 * share - 40)}", flush=True)
    seconds = perf_counter() - start
    predict, _ = fit_svc(training.images, training.labels, torch.device("cpu"), seed=0)
    baseline = float((predict(test.images).numpy() == test.labels).mean())
    print(f"trained in {seconds:.1f} s; 95 % interval of the last accuracy: {show_interval(share, len(test))}")
    print(f"ResCNet {100 * share:.2f} %, SVC (RBF kernel) on the pixels of the same images {100 * baseline:.2f} %")


if __name__ == "__main__":
    main()
