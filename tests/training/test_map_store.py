"""Maps live on the device, on the host or in a file: the numbers are the same, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from train_network import train_network

from rescnet import ComputeOptions, NetworkConfig
from rescnet.stages.patches import gather_patches
from rescnet.training.memory_plan import MemoryPlan
from rescnet.training.stores import file as file_store
from rescnet.training.stores import make_store, store_images, stream
from rescnet.training.stores.file import FileStore, reserve_file

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
PLACES = ["device", "host", "file"]
SHAPE = (23, 5, 6, 7)


@pytest.fixture(params=[(torch.float32, False), (torch.float16, True)], ids=["float32", "float16 channels last"])
def kind(request):
    return request.param


def filled(place, kind, maps, folder, size=8):
    dtype, channels_last = kind
    store = make_store(place, SHAPE, dtype, DEVICE, channels_last, folder)
    for start in range(0, len(maps), size):
        part = slice(start, min(start + size, len(maps)))
        store.write(part, maps[part].to(dtype).to(DEVICE))
    return store


def whole(store):
    return torch.cat([chunk.clone() for chunk in store.chunks(len(store))])


@pytest.mark.parametrize("place", PLACES)
def test_what_is_written_is_read(place, kind, generator, tmp_path):
    maps = torch.randn(SHAPE, generator=generator)
    store = filled(place, kind, maps, tmp_path)
    wanted = maps.to(kind[0])
    assert len(store) == 23
    assert torch.equal(whole(store).cpu(), wanted)
    for size in (1, 5, 23, 100):
        sizes, start = [], 0
        for chunk in store.chunks(size):
            assert chunk.device.type == DEVICE.type
            assert torch.equal(chunk.cpu(), wanted[start : start + size])
            sizes.append(len(chunk))
            start += size
        assert sum(sizes) == 23 and max(sizes) == min(size, 23)


@pytest.mark.parametrize("place", PLACES)
def test_zeros_follow_the_channels_of_a_pixel(place, generator, tmp_path):
    """Kernels read eight channels at a time. A chunk may have such zeros, too: the device copies it with them."""
    maps = torch.randn(SHAPE, generator=generator).half().to(DEVICE)
    store = make_store(place, SHAPE, torch.float16, DEVICE, True, tmp_path)
    n, _, h, w = SHAPE
    padded = torch.zeros(11, h, w, 8, dtype=torch.float16, device=DEVICE).permute(0, 3, 1, 2)[:, :5]
    padded.copy_(maps[:11])
    store.write(slice(0, 11), padded)
    store.write(slice(11, n), maps[11:])
    (found,) = store.chunks(n)
    assert torch.equal(found, maps)
    if place != "device":
        return
    assert found.stride() == (8 * h * w, 1, 8 * w, 8)
    assert not found.as_strided((n, 8, h, w), found.stride())[:, 5:].any()


@pytest.mark.parametrize("place", PLACES)
def test_chunks_are_overwritten_by_their_successors(place, kind, generator, tmp_path):
    """As a layer does: each chunk is read and overwritten while the next one is fetched."""
    maps = torch.randn(SHAPE, generator=generator)
    images = torch.randint(0, 256, (23, 3, 6, 7), generator=generator, dtype=torch.uint8)
    store, image_store = filled(place, kind, maps, tmp_path), store_images(images, DEVICE, place)
    wanted = maps.to(kind[0])
    for _ in range(3):
        for part, before, pictures in stream(4, store, image_store):
            assert torch.equal(pictures.cpu(), images[part])
            store.write(part, before * 2 + 1)
        wanted = wanted * 2 + 1
    assert torch.equal(whole(store).cpu(), wanted)


@pytest.mark.parametrize("place", PLACES)
def test_single_patches_are_found(place, kind, generator, tmp_path, monkeypatch):
    monkeypatch.setattr(file_store, "GATHERED_BYTES", 3000)  # three or seven images at a time
    maps = torch.randn(SHAPE, generator=generator)
    image, row, column = (torch.randint(high, (40,), generator=generator) for high in (23, 4, 5))
    found = filled(place, kind, maps, tmp_path).patches(3, image, row, column)
    assert torch.equal(found.cpu(), gather_patches(maps.to(kind[0]), 3, image, row, column))


def test_the_first_layer_has_no_maps(generator):
    images = torch.randint(0, 256, (9, 1, 4, 4), generator=generator, dtype=torch.uint8)
    seen = list(stream(4, None, store_images(images, DEVICE, "device")))
    assert [(part.start, part.stop, maps) for part, maps, _ in seen] == [(0, 4, None), (4, 8, None), (8, 9, None)]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["exact", "balanced"])
@pytest.mark.parametrize("keep", [True, False])
def test_the_network_is_the_same_wherever_maps_live(precision, keep, blobs, tmp_path, monkeypatch):
    images, labels = blobs
    config = NetworkConfig(
        filters=6, layers=3, block_sizes=(6,), block_stride=2, pyramid=(2, 1), stop_at_zero_error=False
    )
    original = MemoryPlan.of
    changes = {"chunk": 50} | ({} if keep else {"keep_features": False})
    monkeypatch.setattr(MemoryPlan, "of", lambda *given: replace(original(*given), **changes))
    networks = []
    for place in PLACES:
        compute = ComputeOptions(precision=precision, maps=place, scratch=str(tmp_path))
        network, history = train_network(
            images[:170], labels[:170], config, test=(images[170:], labels[170:]), compute=compute
        )
        networks.append((network, [record.test_accuracy for record in history]))
    (first, accuracies), *others = networks
    for network, found in others:
        assert found == accuracies
        for a, b in zip(first.layers, network.layers, strict=True):
            assert torch.equal(a.weights, b.weights)
            assert torch.equal(a.head.weights, b.head.weights)
            assert torch.equal(a.input_range.low, b.input_range.low)
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_images_is_not_copied(blobs, tmp_path):
    images, labels = blobs
    np.save(tmp_path / "images.npy", images)
    config = NetworkConfig(filters=4, layers=2, block_sizes=(6,), block_stride=2, pyramid=(1,))
    plain, _ = train_network(images, labels, config)
    mapped, _ = train_network(np.load(tmp_path / "images.npy", mmap_mode="r"), labels, config)
    assert torch.equal(plain.layers[-1].head.weights, mapped.layers[-1].head.weights)


def test_a_disk_too_small_is_an_error_at_once(tmp_path):
    with pytest.raises(ValueError, match=r"scratch must have room for 1.15 EB of maps, got .*\. Use another folder"):
        reserve_file(2**60, tmp_path)
    with pytest.raises(ValueError, match=r"scratch must be a writable folder, got .*nowhere"):
        FileStore(SHAPE, torch.float32, DEVICE, folder=tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []
