"""The metric of the codes: the outer products of the readout's derivatives."""

from __future__ import annotations

import pytest
import torch

from rescnet.numerics.code_kernel import Codes, code_kernel
from rescnet.training.readout import metric
from rescnet.training.readout.metric import LEAST, POWER, learned_metric
from rescnet.training.readout.system import solve_exactly

SCALE = 0.1


def fitted(classes=3, images=60, numbers=6):
    """Return codes of which only the first two numbers tell the classes, and the regression of the classes."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(images) % classes
    values = torch.randn(images, numbers, generator=generator).double()
    values[:, :2] += 3 * torch.randn(classes, 2, generator=generator).double()[labels]
    codes = Codes.of(values)
    return codes, solve_exactly(codes, torch.nn.functional.one_hot(labels).double(), SCALE, 0.01).columns


def outer_products(codes, solution):
    """Return Σ ∇f ∇fᵀ over images and classes, with derivatives by automatic differentiation."""
    total = 0
    for one in codes.values:
        jacobian = torch.autograd.functional.jacobian(
            lambda c: (code_kernel(Codes.of(c[None]), codes, SCALE) @ solution)[0], one
        )
        total = total + jacobian.T @ jacobian
    return total


def test_it_is_a_power_of_the_outer_products_of_derivatives():
    codes, solution = fitted()
    found = learned_metric(codes, solution, SCALE, 0)
    sizes, vectors = torch.linalg.eigh(outer_products(codes, solution))
    wanted = (vectors * (sizes / sizes.mean()).clamp_min(LEAST).pow(POWER)) @ vectors.T
    torch.testing.assert_close(found @ found.T, wanted, rtol=1e-6, atol=1e-9)
    lengths = found.norm(dim=0)
    assert bool((lengths.diff() <= 0).all())  # the most important number is the first


def test_numbers_that_tell_the_classes_count_more():
    codes, solution = fitted()
    weights = learned_metric(codes, solution, SCALE, 0).norm(dim=1)
    assert float(weights[:2].min()) > 1.1 * float(weights[2:].max())


def test_many_classes_are_combined(monkeypatch):
    codes, solution = fitted(classes=12, images=240)
    whole = learned_metric(codes, solution, SCALE, 0)
    monkeypatch.setattr(metric, "OUTPUTS", 8)
    some = learned_metric(codes, solution, SCALE, 0)
    whole, some = whole @ whole.T, some @ some.T
    assert 0 < float((some - whole).norm() / whole.norm()) < 0.2


def test_some_of_many_images_are_enough(monkeypatch):
    codes, solution = fitted(images=240)
    whole = learned_metric(codes, solution, SCALE, 0)
    monkeypatch.setattr(metric, "IMAGES", 100)
    monkeypatch.setattr(metric, "TOGETHER", 30)
    some = learned_metric(codes, solution, SCALE, 0)
    whole, some = whole @ whole.T, some @ some.T
    assert 0 < float((some - whole).norm() / whole.norm()) < 0.2


@pytest.mark.parametrize("value", [0.0, 2.0])
def test_equal_codes_are_left_alone(value):
    codes = Codes.of(torch.full((5, 3), value))
    assert torch.equal(learned_metric(codes, torch.ones(5, 2), SCALE, 0), torch.eye(3))
