from __future__ import annotations

import naive
import numpy as np
import pytest
import torch

from rescnet.stages.residual import compensate, labels_and_signs, residual, signed_one_hot


def test_the_papers_worked_example():
    """Section 2.3.3: outputs 0.4, 0.6, 0 of an image of class A; λ = 0.8; label B, sign -1; result 0.4, -0.4, 0."""
    output = torch.tensor([[0.4, 0.6, 0.0]], dtype=torch.float64)
    targets = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
    found = residual(targets, output, 0.8)
    torch.testing.assert_close(found, torch.tensor([[0.4, -0.6, 0.0]], dtype=torch.float64))
    labels, positive = labels_and_signs(found)
    assert labels.tolist() == [1]  # B
    assert positive.tolist() == [False]
    perfect = torch.tensor([[0.0, 1.0, 0.0]], dtype=torch.float64)
    after = compensate(output, 1.0, 0.0, torch.zeros_like(perfect), 1.0, perfect)
    torch.testing.assert_close(after, torch.tensor([[0.4, -0.4, 0.0]], dtype=torch.float64))
    assert after.argmax(1).tolist() == [0]  # A, the true class


def test_labels_and_signs_match_the_loop(generator):
    labels = torch.randint(5, (200,), generator=generator)
    output = torch.rand(200, 5, generator=generator, dtype=torch.float64)
    one_hot = torch.nn.functional.one_hot(labels, 5).double()
    new, positive = labels_and_signs(residual(one_hot, output, 0.8))
    expected, signs = naive.residual_step(labels.numpy(), output.numpy(), 0.8)
    assert np.array_equal(new.numpy(), expected)
    assert np.array_equal(np.where(positive.numpy(), 1, -1), signs)


def test_groups_are_positive_classes_then_negative_ones():
    groups = signed_one_hot(torch.tensor([0, 2, 1]), torch.tensor([True, False, True]), 3, torch.float32)
    assert groups.argmax(1).tolist() == [0, 5, 1]
    assert groups.sum() == 3


def test_update_weighs_both_signs(generator):
    output, positive, negative = (torch.rand(6, 3, generator=generator, dtype=torch.float64) for _ in range(3))
    found = compensate(output, 0.4, 0.25, positive, 0.75, negative)
    for i in range(6):
        for c in range(3):
            wanted = output[i, c] + 0.4 * (0.25 * positive[i, c] - 0.75 * negative[i, c])
            assert found[i, c] == pytest.approx(float(wanted), abs=1e-15)
