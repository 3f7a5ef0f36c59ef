"""Members on a GPU against members on a CPU; without a GPU, on a simulated one."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from family.pretend_gpu import OnGPU, pretend_gpu

from rescnet.family import make_member, member_names
from rescnet.family.fitting import fit_member
from rescnet.family.svm import DenseFeatures, SparseFeatures, newton_svm

pytestmark = pytest.mark.slow

HAS_GPU = torch.cuda.is_available()
MEMORY = 10**9
FEWER = {
    "dfsnet-3": {"filters": (2, 2, 2)},
    "multilayer-pcanet": {"filters": (4, 5)},
    "pcanet-plus": {"filters": (2, 4), "bits": 4},
    "stacked-lda": {"discriminants": 30},
}


@pytest.fixture
def gpu():
    with nullcontext(torch.device("cuda")) if HAS_GPU else pretend_gpu() as device:
        yield device


def squares(n, channels, size):
    """Images of three classes: noise with a bright square, whose position depends on the class."""
    generator = torch.Generator().manual_seed(0)
    images, labels = torch.rand(n, channels, size, size, generator=generator), torch.arange(n) % 3
    for label in range(3):
        images[labels == label, :, 2 * label : 2 * label + 4, 1:5] += 0.7
    return images, labels


@pytest.mark.parametrize("name", member_names())
def test_a_member_is_the_same_on_a_gpu(name, gpu):
    images, labels = squares(45, 3 if name in ("pcanet", "ccanet") else 1, 16 if name in ("pcanet", "dctnet") else 10)
    options = FEWER.get(name, {"filters": (2, 4)})
    if name in ("pcanet", "dctnet"):  # float32, as for large images
        options = options | {"block_size": 4, "block_stride": 2, "filter_sizes": (3,)}
    config = make_member(name, tuple(images.shape[1:]), options)
    network = fit_member(images, labels, 3, config, gpu, MEMORY)
    assert all(tensor.is_cuda for tensor in network.tensors())
    on_gpu = network.outputs(images)
    here = fit_member(images, labels, 3, config, torch.device("cpu"), MEMORY).outputs(images)
    assert not on_gpu.is_cuda and torch.equal(on_gpu.argmax(1), here.argmax(1))
    moved = network.to(torch.device("cpu"))
    assert torch.equal(moved.outputs(images).argmax(1), on_gpu.argmax(1))


def test_the_simulated_gpu_refuses_cpu_tensors():
    with pretend_gpu() as device:
        there, here = torch.ones(3, device=device), torch.ones(3)
        assert isinstance(there, OnGPU) and there.device == torch.device("cuda:0") and there.is_cuda
        for mixed in (lambda: there + here, lambda: there @ here, lambda: torch.cat([there, here])):
            with pytest.raises(RuntimeError, match="all tensors must be on one device"):
                mixed()
        with pytest.raises(RuntimeError, match="all tensors must be on one device"):
            here[there.long()]
        with pytest.raises(TypeError, match="convert cuda:0"):
            there.numpy()
        assert float((there * torch.tensor(2.0)).sum()) == 6
        assert there[torch.tensor([0, 2])].cpu().tolist() == [1, 1]
        there[torch.tensor([1])] = 5
        assert (there + here.to(device)).cpu().tolist() == [2, 6, 2]


@pytest.mark.skipif(not HAS_GPU, reason="tensor cores need a GPU")
@pytest.mark.parametrize("classes", [2, 10])
def test_half_precision_products_agree_with_float64(classes):
    features = torch.rand(3000, 4099, device="cuda").mul_(torch.rand(3000, 4099, device="cuda") < 0.1).half()
    for product, inner in ((DenseFeatures(features).times, 4099), (DenseFeatures(features).transposed_times, 3000)):
        right = torch.randn(inner, classes, device="cuda") * 10.0 ** -torch.arange(classes, device="cuda")
        exact = (features if inner == 4099 else features.T).double() @ right.double()
        assert float(((product(right) - exact).norm(dim=0) / exact.norm(dim=0)).max()) < 1e-4


@pytest.mark.skipif(not HAS_GPU, reason="more than 2^32 numbers need the memory of a GPU")
def test_products_of_more_than_2_to_the_32_numbers():
    rows, columns = 20_011, 215_040
    features = torch.zeros(rows, columns, dtype=torch.float16, device="cuda")
    features[torch.arange(rows), torch.arange(rows) * 10] = 2
    right = torch.randn(columns, 10, device="cuda")
    assert torch.allclose(DenseFeatures(features).times(right), 2 * right[: rows * 10 : 10], rtol=1e-3, atol=1e-4)
    left = torch.randn(rows, 10, device="cuda")
    found = DenseFeatures(features).transposed_times(left)
    assert torch.allclose(found[: rows * 10 : 10], 2 * left, rtol=1e-3, atol=1e-4)
    assert float(found.abs().sum()) == pytest.approx(float(2 * left.abs().sum()), rel=1e-3)


def test_newton_in_half_precision_agrees_with_single_precision(gpu):
    from scipy.sparse import csr_matrix

    generator = torch.Generator().manual_seed(1)
    features = torch.rand(300, 50, generator=generator)
    labels = (features[:, :4] + 0.2 * torch.rand(300, 4, generator=generator)).argmax(1)
    halves = newton_svm(DenseFeatures(features.half().to(gpu)), 50, labels.to(gpu), 4, 1.0, 1e-3)
    here = newton_svm(SparseFeatures(csr_matrix(features.numpy())), 50, labels, 4, 1.0, 1e-3)
    assert torch.allclose(halves.weights.cpu(), here.weights, atol=0.02 * float(here.weights.abs().max()))
