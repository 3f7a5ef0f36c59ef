from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from train_network import train_network

from rescnet import ComputeOptions, Config, NetworkConfig
from rescnet.base.text import parse_bytes
from rescnet.config.grammars import BANKS
from rescnet.network.memory import LARGEST_WORKSPACE, LIBRARIES, RunSizes, memory_budget
from rescnet.network.stack import LayerStack
from rescnet.numerics.sketch import sketch_size
from rescnet.stages.filters.bank import COPIES
from rescnet.stages.images import ValueRange
from rescnet.training.data import TrainingData
from rescnet.training.heads import TARGET_COPIES
from rescnet.training.layer_patches import LayerInput, LayerPatches
from rescnet.training.memory_plan import Machine, MemoryPlan, check_readout_fits, filter_sums_bytes
from rescnet.training.stopwatch import PeakMemory
from rescnet.training.stores import store_images
from rescnet.training.stream import ImageStream

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("text", "expected"), [("500MB", 500 * 10**6), ("16 GB", 16 * 10**9), ("2GiB", 2**31), ("1.5k", 1500), ("12", 12)]
)
def test_amounts_are_read(text, expected):
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "much", "-3GB", "0", "3 XB", "1e3"])
def test_unreadable_amounts_are_refused(text):
    with pytest.raises(ValueError, match=r"memory must be a number with a unit, e\.g\. 500MB"):
        parse_bytes(text)
    with pytest.raises(ValueError, match="memory must be a number with a unit"):  # before any work
        ComputeOptions(max_memory=text)


def test_auto_is_a_share_of_the_machine_and_processes_share_it(monkeypatch):
    monkeypatch.setattr("rescnet.network.memory.host_memory", lambda: 10**10)
    assert [memory_budget("auto", CPU, count) for count in (1, 4)] == [6 * 10**9, 15 * 10**8]
    assert memory_budget("2GB", CPU, 4) == 2 * 10**9


def plan(budget, n=20_000, maps="auto", **options):
    config = NetworkConfig(filters=20, block_sizes=(8,), block_stride=4, **options)
    return MemoryPlan.of(config, RunSizes((3, 32, 32), 10, n, 1000), Machine(CPU, parse_bytes(budget)), maps)


def test_features_are_kept_only_where_they_fit():
    roomy, tight = plan("8GB"), plan("2.1GB", maps="device")
    assert roomy.keep_features
    assert not tight.keep_features
    assert tight.features_bytes == 0
    for found, budget in ((roomy, 8e9), (tight, 2.1e9)):
        assert found.maps_place == "device"
        assert found.total_bytes <= budget
        assert found.chunk >= 1


def test_maps_go_to_a_file_before_chunks_become_smaller():
    roomy, tight, tighter = plan("8GB"), plan("1GB"), plan("330MB")
    assert [found.maps_place for found in (roomy, tight, tighter)] == ["device", "file", "file"]
    assert roomy.chunk == tight.chunk > tighter.chunk
    assert tight.keep_features and not tighter.keep_features
    assert tight.total_bytes <= 1e9 and tighter.total_bytes <= 330e6


def test_sixteen_gigabytes_are_enough_for_cifar10_on_a_gpu(monkeypatch):
    """Maps go to the host, features stay; chunks and rows are those of a larger card, and so is the network."""
    monkeypatch.setattr("rescnet.training.memory_plan.host_memory", lambda: 64 * 10**9)
    config, cuda = Config("cifar10").complete(), torch.device("cuda")
    sizes = RunSizes((3, 32, 32), 10, 50_000, 10_000, half=True)
    small, large = (MemoryPlan.of(config, sizes, Machine(cuda, budget)) for budget in (16 * 10**9, 80 * 10**9))
    assert (small.maps_place, large.maps_place) == ("host", "device")
    assert small.keep_features and small.total_bytes < 16e9
    assert small.chunk == large.chunk
    assert min(small.rows, 50_000) == min(large.rows, 50_000)
    monkeypatch.setattr("rescnet.training.memory_plan.host_memory", lambda: 8 * 10**9)
    assert MemoryPlan.of(config, sizes, Machine(cuda, 16 * 10**9)).maps_place == "file"


def test_a_budget_too_small_says_what_is_needed():
    with pytest.raises(
        ValueError, match=r"max_memory must be at least 25\d MB .* \(200 MB of sums and heads\), got 200 MB"
    ):
        plan("200MB")


@pytest.mark.slow
def test_products_of_images_that_are_decomposed_are_counted():
    """Only if there is a component per image: otherwise a subspace is found in less memory."""
    labels = torch.full((1,), 9).expand(1000)
    data = TrainingData(torch.zeros(1, dtype=torch.uint8).expand(1000, 1, 8, 8), labels, {})
    every, fewer = (
        Config("digits", layers=20, filters=4, readout="kernel", readout_size=size).complete() for size in (1000, 999)
    )
    with pytest.raises(ValueError, match=r"at least 45\.6 MB for 1,000 components of a readout, one per image, got 40"):
        check_readout_fits(every, data, 4, 40 * 10**6)
    check_readout_fits(fewer, data, 4, 40 * 10**6)
    check_readout_fits(every, data, 4, 46 * 10**6)


def test_a_chunked_run_equals_the_whole_run(blobs, monkeypatch):
    images, labels = blobs[0][:120], blobs[1][:120]
    config = NetworkConfig(
        filters=6, layers=2, block_sizes=(6,), block_stride=2, pyramid=(2, 1), stop_at_zero_error=False
    )
    outputs = []
    for workspace in (2**30, 2**18):
        monkeypatch.setitem(LARGEST_WORKSPACE, "cpu", workspace)
        network, _ = train_network(images, labels, config, compute=ComputeOptions(dtype="float64"))
        outputs.append(network.outputs(images))
    np.testing.assert_allclose(outputs[0].numpy(), outputs[1].numpy(), atol=1e-8)


def test_features_computed_twice_give_the_same_bits(blobs, monkeypatch):
    """Recomputed features are those that were summed, so nothing but memory changes."""
    images, labels = blobs
    config = NetworkConfig(
        filters=6, layers=2, block_sizes=(6,), block_stride=2, pyramid=(2, 1), stop_at_zero_error=False
    )
    kept, _ = train_network(images, labels, config)
    original = MemoryPlan.of
    monkeypatch.setattr(MemoryPlan, "of", lambda *a: replace(original(*a), keep_features=False, features_bytes=0))
    twice, _ = train_network(images, labels, config)
    assert torch.equal(kept.outputs(images), twice.outputs(images))


def test_chunks_updated_together_give_the_same_outputs(blobs, monkeypatch):
    images, labels = blobs[0][:60], blobs[1][:60]
    config = NetworkConfig(filters=6, layers=2, block_sizes=(6,), block_stride=2, pyramid=(2,), augment="flip")
    config = replace(config, readout="kernel", stop_at_zero_error=False)
    monkeypatch.setitem(LARGEST_WORKSPACE, "cpu", 2**18)  # several chunks
    outputs = []
    for chunks in (1, 2):
        monkeypatch.setattr("rescnet.training.trainer.Trainer._chunks_updated_together", chunks)
        network, _ = train_network(images, labels, config, compute=ComputeOptions(dtype="float64"))
        outputs.append(network.outputs(images))
    assert torch.allclose(*outputs, atol=1e-6)


@pytest.mark.parametrize(("together", "parts"), [(1, [4, 4, 2]), (2, [8, 2]), (3, [10])])
def test_parts_hold_several_chunks(together, parts):
    stream = ImageStream("training", torch.zeros(10, 1, 2, 2), torch.zeros(10), torch.zeros(10, 2), chunk=4)
    assert [part.stop - part.start for part in stream.parts(together)] == parts


@pytest.mark.parametrize(("half", "channels"), [(True, 56), (False, 50)])
def test_half_precision_maps_are_counted_with_their_padding(half, channels):
    sizes = RunSizes((3, 32, 32), 10, 1000, 100, half=half)
    plan = MemoryPlan.of(Config("cifar10").complete(), sizes, Machine(torch.device("cuda"), 80 * 10**9))
    assert plan.maps_bytes == 1100 * channels * 32 * 32 * sizes.stored


@pytest.mark.alone
def test_peak_memory_sees_an_allocation():
    peak = PeakMemory(CPU)
    peak.reset()
    before = peak.bytes()
    block = torch.ones(40 * 2**20)  # 160 MB
    assert peak.bytes() - before > 120 * 2**20
    del block


def run_in_tests(command):
    folder = Path(__file__).parent.parent  # of train_network
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, cwd=folder)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the system does not tell a process's peak")
def test_peak_memory_stays_within_the_budget():
    """Few and many classes, in processes of their own: 35 MB without the libraries, where 8 GB would let it use 60."""
    budget = "85MB"
    script = f"""
import os, pathlib, re
import numpy as np, torch
from rescnet import ComputeOptions, NetworkConfig, train
from train_network import train_network
torch.set_num_threads(1)
rng = np.random.default_rng(0)
small = rng.integers(0, 256, (60, 3, 24, 24)).astype(np.uint8)
config = NetworkConfig(
    filters=12, layers=2, block_sizes=(12,), block_stride=1, pyramid=(4, 2, 1), stop_at_zero_error=False
)
for classes in (5, 300):
    if os.fork() == 0:  # libraries are imported once
        train(small, np.arange(60) % 5, config)  # libraries allocate once, at first use
        images, labels = rng.integers(0, 256, (300, 3, 24, 24)).astype(np.uint8), np.arange(300) % classes
        before = int(re.search(r"VmRSS:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]) * 1024
        _, history = train_network(images, labels, config, compute=ComputeOptions(max_memory="{budget}"))
        print(max(record.peak_memory for record in history) - before, flush=True)
        os._exit(0)
    os.wait()
"""
    done = run_in_tests([sys.executable, "-c", script])
    few, many = map(int, done.stdout.split())
    assert max(few, many) <= parse_bytes(budget) - LIBRARIES["cpu"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the system does not tell a process's peak")
def test_peak_memory_does_not_grow_with_the_images(tmp_path):
    """Ten times the images, whose maps take 40 MB, peak within a tenth; both read images from a file."""
    script = """
import os, sys
import numpy as np, torch
from rescnet import ComputeOptions, NetworkConfig
from train_network import train_network
torch.set_num_threads(1)
config = NetworkConfig(
    filters=16, layers=2, block_sizes=(8,), block_stride=4, pyramid=(2, 1), tolerance=0.2, stop_at_zero_error=False
)
compute = ComputeOptions(max_memory="110MB", maps="file", scratch=sys.argv[1])
for name in sys.argv[2:]:
    if os.fork() == 0:  # libraries are imported once
        images = np.load(name, mmap_mode="r")
        _, history = train_network(images, np.arange(len(images)) % 5, config, compute=compute)
        print(max(record.peak_memory for record in history), flush=True)
        os._exit(0)
    os.wait()
"""
    files = [tmp_path / "few.npy", tmp_path / "many.npy"]
    for file, count in zip(files, (250, 2500), strict=True):
        np.save(file, np.random.default_rng(0).integers(0, 256, (count, 1, 16, 16)).astype(np.uint8))
    command = [sys.executable, "-c", script, tmp_path, *files]
    done = run_in_tests(command)
    few, many = map(int, done.stdout.split())
    assert many < 1.1 * few
    assert {file.name for file in tmp_path.iterdir()} == {"few.npy", "many.npy"}


def test_class_sums_of_supervised_banks_are_counted(blobs):
    """Against the sums themselves: (classes, positions, M) and (classes, M, M), with the copies the bank makes."""
    images, labels = blobs
    classes, shape = int(labels.max()) + 1, images.shape[1:]
    for bank, name in (("lda", "lda"), ("canonical", "canonical"), ("3 pca + 1 lda", "lda")):
        sets, outers, places = BANKS[name].class_sums
        config = NetworkConfig(filters=6, bank=f"{bank}; pca", block_sizes=(6,))
        store, stack = store_images(torch.as_tensor(images), CPU, "device"), LayerStack(config, shape, classes)
        inputs = LayerInput(stack, ValueRange.of(torch.as_tensor(images).double()), None, store, 7)
        sums = LayerPatches(inputs, torch.as_tensor(labels), 3).class_moments(sets)
        held = outers * sums.outer.nbytes + places * sums.by_position.nbytes
        patches = COPIES * 8 * (3 * 9) ** 2
        assert filter_sums_bytes(config, shape, classes, "cpu") == held + patches
    late = [NetworkConfig(filters=6, bank=bank, block_sizes=(6,)) for bank in ("pca; lda", "pca; pca; lda")]
    assert filter_sums_bytes(late[0], shape, classes, "cpu") == filter_sums_bytes(late[1], shape, classes, "cpu")
    plain = NetworkConfig(filters=6, bank="stacked-lda", block_sizes=(6,))
    assert filter_sums_bytes(plain, shape, classes, "cpu") == COPIES * 8 * (9 * 9) ** 2


def test_many_classes_of_a_supervised_bank_need_more():
    few, many = plan("8GB", bank="lda"), NetworkConfig(filters=20, block_sizes=(8,), block_stride=4, bank="lda")
    sizes = RunSizes((3, 32, 32), 1000, 20_000, 1000)
    found = MemoryPlan.of(many, sizes, Machine(CPU, 10**12))
    assert found.gram_bytes > 1000 * 23 * 9 * 900 * 8 * 3 > few.gram_bytes
    with pytest.raises(ValueError, match=r"max_memory must be at least .*, got 5 GB\. Allow more"):
        MemoryPlan.of(many, sizes, Machine(CPU, 5 * 10**9))


def test_zone_products_of_more_than_64_channels_are_counted():
    pytest.importorskip("triton")
    from rescnet.fused.patch_sums import _share_out, zone_bytes

    # (items, 3, 5, padded, padded) in float32 and float64
    work, _ = _share_out(1000, 32, 32)
    for channels, padded in ((63, 64), (64, 128)):
        partial = len(work) * 15 * padded**2
        assert partial * 12 <= zone_bytes(channels) <= 1.3 * partial * 12
    narrow, wide = (filter_sums_bytes(NetworkConfig(filters=d), (3, 32, 32), 10, "cuda") for d in (60, 61))
    assert wide - narrow > 2.5 * zone_bytes(63)


@pytest.mark.parametrize(("half", "kind", "copies"), [(True, "cuda", 0), (True, "cpu", 8), (False, "cpu", 0)])
def test_copies_for_the_gram_matrix_are_counted(half, kind, copies):
    config = NetworkConfig(filters=20, block_sizes=(8,), block_stride=4)
    machine = Machine(torch.device(kind), 10**11)
    found = MemoryPlan.of(config, RunSizes((3, 32, 32), 10, 20_000, half=half), machine, "device")
    row = (2 * (2 if half else 4) + copies) * found.width + TARGET_COPIES * 10 * 4
    assert found.rows == LARGEST_WORKSPACE[kind] // row


def test_workers_of_one_host_share_its_memory(monkeypatch):
    """Maps of 6 GB, pinned in 8: one worker has room for them on a host of 64 GB, eight have not."""
    monkeypatch.setattr("rescnet.training.memory_plan.host_memory", lambda: 64 * 10**9)
    config, cuda = Config("cifar10").complete(), torch.device("cuda")
    sizes = RunSizes((3, 32, 32), 10, 50_000, 10_000, half=True)
    plans = [MemoryPlan.of(config, sizes, Machine(cuda, 8 * 10**9, workers)) for workers in (1, 8)]
    assert [found.maps_place for found in plans] == ["host", "file"]


def test_the_file_of_a_readout_has_the_images_of_all_workers():
    config = Config("cifar10-best").complete()
    alone, shared = (
        MemoryPlan.of(config, RunSizes((3, 32, 32), 10, 1200 // count), Machine(CPU, 10**11, count, count))
        for count in (1, 2)
    )
    assert alone.readout_bytes == shared.readout_bytes


def test_few_images_are_solved_by_rows_and_take_less_memory():
    """D is 3,990 here: up to two thirds as many images take no matrix of features with features."""
    few, many, fewer = plan("8GB", n=2_660), plan("8GB", n=2_661), plan("8GB", n=100)
    assert few.features == 3990
    assert few.by_rows and not many.by_rows
    assert fewer.gram_bytes < 0.1 * many.gram_bytes
    config = NetworkConfig(filters=20, block_sizes=(8,), block_stride=4)
    sizes = RunSizes((3, 32, 32), 10, 100)
    assert MemoryPlan.of(config, sizes, Machine(CPU, 10**10)).by_rows
    assert not MemoryPlan.of(config, sizes, Machine(CPU, 10**10, processes=2)).by_rows
    half, gpu = replace(sizes, half=True), Machine(torch.device("cuda"), 10**10)
    assert MemoryPlan.of(config, replace(half, train=1330), gpu).by_rows  # a third
    assert not MemoryPlan.of(config, replace(half, train=1331), gpu).by_rows


@pytest.mark.parametrize(("budget", "counted"), [(10**9, 500), (10**11, 10_500)])
def test_sketches_of_test_images_are_planned_or_not_kept(budget, counted):
    config = Config().complete((3, 32, 32), images=500)
    found = MemoryPlan.of(config, RunSizes((3, 32, 32), 10, 500, 10_000), Machine(CPU, budget)).sketches
    each = config.layers * sketch_size(config, (32, 32)) * (4 if found.in_float32 else 2)
    assert found.bytes == counted * each
    assert found.of_others == (counted > 500)


def test_the_readout_has_the_same_accuracy_without_sketches_of_test_images(blobs, monkeypatch):
    images, labels = blobs
    config = NetworkConfig(filters=6, layers=1, block_sizes=(6,), block_stride=2, pyramid=(2,), readout="kernel")
    original = MemoryPlan.of

    def without(*arguments):
        plan = original(*arguments)
        return replace(plan, sketches=replace(plan.sketches, of_others=False))

    found = []
    for plan in (original, without):
        monkeypatch.setattr(MemoryPlan, "of", plan)
        found.append(
            train_network(images[:60], labels[:60], config, test=(images[60:], labels[60:]))[1].readout.test_accuracy
        )
    assert found[0] == found[1]
