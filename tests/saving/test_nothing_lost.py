"""Nothing is lost: an old model stays until the new one is complete, runs are not mixed, links are not followed."""

from __future__ import annotations

import errno
import gc
import os
import shutil
from functools import partial

import pytest
from saving.tiny_model import NAMES, change_model_json, check_message, first_layers, make_model
from typer.testing import CliRunner

from rescnet.cli import app
from rescnet.network.history import StopReason
from rescnet.saving import (
    ModelFileError,
    ModelFolder,
    ModelWriter,
    check_place,
    layout,
    load_model,
    read_run,
    save_model,
)
from rescnet.saving.folder import FolderLock


def content_of(folder):
    return {file: file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def overwriting(saved, model):
    return ModelWriter(saved, model.network, NAMES, {}, overwrite=True)


def add(writer, model, *layers):
    for number in layers:
        writer.add_layer(model.network.layers[number - 1], model.history[number - 1])


class TestOverwriting:
    @pytest.mark.parametrize("reason", [StopReason.INTERRUPTED, StopReason.FAILED])
    def test_a_run_that_ends_early_keeps_the_old_model(self, reason, model, saved):
        before, other = content_of(saved), make_model(seed=1, bank="random")
        writer = overwriting(saved, other)
        add(writer, other, 1, 2)
        writer.finish(reason)
        assert content_of(saved) == before
        beside = saved.with_name("model.partial")
        assert writer.folder == beside and sorted(saved.parent.iterdir()) == [saved, beside]
        assert len(load_model(beside).history) == 2 and ModelFolder.open(beside).sealed
        run = read_run(beside)
        run.lock.release()
        assert len(run.layers) == 2

    def test_a_complete_run_replaces_the_old_model(self, model, saved):
        saved.chmod(0o750)
        writer = overwriting(saved, model)
        add(writer, model, 1)
        assert writer.folder == saved.with_name("model.partial")
        assert len(load_model(saved).history) == 3
        writer.finish(None)
        assert writer.folder == saved and len(load_model(saved).history) == 1
        assert list(saved.parent.iterdir()) == [saved] and saved.stat().st_mode & 0o777 == 0o750

    def test_an_earlier_partial_run_is_not_lost(self, model, saved):
        writer = overwriting(saved, model)
        add(writer, model, 1)
        writer.finish(StopReason.INTERRUPTED)
        beside = saved.with_name("model.partial")
        with pytest.raises(ModelFileError) as error:
            check_place(saved, overwrite=True)
        check_message(error, f"{beside} holds a run that was to replace {saved}. Resume it (--resume {beside})")
        with pytest.raises(ModelFileError):
            overwriting(saved, model)
        save_model(model, saved, overwrite=True)  # needs no such folder
        assert len(load_model(beside).history) == 1

    @pytest.mark.parametrize("calls", range(1, 11))
    def test_a_full_disk_keeps_the_old_model(self, calls, model, saved, monkeypatch):
        before, original, seen = content_of(saved), os.fsync, []

        def full(descriptor):
            seen.append(descriptor)
            if len(seen) >= calls:
                raise OSError(errno.ENOSPC, "No space left on device")
            original(descriptor)

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space left on device"):
            save_model(first_layers(model, 2), saved, overwrite=True)
        assert content_of(saved) == before and list(saved.parent.iterdir()) == [saved]
        with pytest.raises(OSError, match="no space left on device"):
            save_model(model, saved.with_name("new"))
        assert list(saved.parent.iterdir()) == [saved]

    def test_a_failed_move_puts_the_old_model_back(self, model, saved, monkeypatch):
        before, rename = content_of(saved), type(saved).rename

        def fail_once(self, target):
            if self.name == "model" and ".new-" in str(self.parent):
                raise KeyboardInterrupt
            return rename(self, target)

        monkeypatch.setattr(type(saved), "rename", fail_once)
        with pytest.raises(KeyboardInterrupt):
            save_model(first_layers(model, 1), saved, overwrite=True)
        assert content_of(saved) == before and list(saved.parent.iterdir()) == [saved]


class TestMixedRuns:
    @pytest.fixture
    def other(self, tmp_path):
        save_model(make_model(bank="random", seed=5), tmp_path / "other")
        return tmp_path / "other"

    def test_the_history_of_another_run_is_refused(self, saved, other):
        for name in ("history.jsonl", *(layout.layer_name(number) for number in (1, 2, 3))):
            shutil.copy(other / name, saved / name)
        for read in (load_model, read_run):
            with pytest.raises(ModelFileError, match=r"history\.jsonl is cut short or altered"):
                read(saved)

    @pytest.mark.parametrize("lines", [1, 2])
    def test_part_of_the_history_of_another_run_is_refused(self, lines, saved, other):
        text = (other / "history.jsonl").read_bytes().splitlines(keepends=True)
        (saved / "history.jsonl").write_bytes(b"".join(text[:lines]))
        shutil.copytree(other / "layers", saved / "layers", dirs_exist_ok=True)
        with pytest.raises(ModelFileError, match=r"or of another run than model\.json"):
            read_run(saved)

    def test_lines_after_the_end_are_refused(self, saved):
        change_model_json(saved, lambda content: content["sealed"].update(layers=2))
        with pytest.raises(ModelFileError, match="or of another run"):
            read_run(saved)

    @pytest.mark.parametrize("torn", [b"", b'{"layer": 3, "tr'])
    def test_a_damaged_last_line_is_learned_again(self, torn, saved):
        text = (saved / "history.jsonl").read_bytes().splitlines(keepends=True)
        (saved / "history.jsonl").write_bytes(b"".join(text[:2]) + torn)
        run = read_run(saved)
        run.lock.release()
        assert len(run.layers) == 2 and run.damaged == str(saved / "history.jsonl")


class TestLinks:
    @pytest.fixture
    def secret(self, tmp_path):
        file = tmp_path / "secret.txt"
        file.write_text("mine")
        yield file
        assert file.read_text() == "mine" and not file.is_symlink()

    def resume(self, saved, model):
        run = read_run(saved)
        facts = model.network, NAMES, {}
        writer = ModelWriter(saved, *facts, resumed=run)
        add(writer, model, 3)
        writer.finish(None)

    @pytest.fixture
    def begun(self, saved):
        """A run of two layers."""
        text = (saved / "history.jsonl").read_bytes().splitlines(keepends=True)
        (saved / "history.jsonl").write_bytes(b"".join(text[:2]))
        (saved / layout.layer_name(3)).unlink()
        change_model_json(saved, lambda content: content.update(sealed=None, about={}))
        return saved

    @pytest.mark.parametrize("name", [".model.json.part", "layers/.00003.safetensors.part", layout.layer_name(3)])
    def test_a_link_in_place_of_a_new_file_is_replaced(self, name, begun, model, secret):
        (begun / name).symlink_to(secret)
        self.resume(begun, model)
        assert len(load_model(begun).history) == 3 and not list(begun.rglob("*.part"))

    def test_a_link_as_history_is_refused(self, begun, model, tmp_path, secret):
        (begun / "history.jsonl").rename(tmp_path / "history.jsonl")
        (begun / "history.jsonl").symlink_to(tmp_path / "history.jsonl")
        before = (tmp_path / "history.jsonl").read_bytes()
        assert len(load_model(begun).history) == 2  # a link may be read, e.g. in a cache of downloads
        with pytest.raises(ModelFileError) as error:
            read_run(begun)
        check_message(error, "history.jsonl must be a regular file, not a link or a device")
        assert (tmp_path / "history.jsonl").read_bytes() == before

    def test_links_are_refused_after_the_run_was_read(self, begun, model, tmp_path, secret):
        run = read_run(begun)
        (begun / "history.jsonl").unlink()
        (begun / "history.jsonl").symlink_to(secret)
        with pytest.raises(ModelFileError, match="must be a regular file"):
            ModelWriter(begun, model.network, NAMES, {}, resumed=run)
        run.lock.release()

    def test_a_link_as_folder_of_the_layers_is_refused(self, begun, model, tmp_path):
        shutil.move(begun / "layers", tmp_path / "elsewhere")
        (begun / "layers").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(ModelFileError, match="must be a folder, got a symbolic link"):
            self.resume(begun, model)
        assert len(list((tmp_path / "elsewhere").iterdir())) == 2


@pytest.mark.parametrize("name", ["model.json", "history.jsonl", "layers/00001.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_only_regular_files_are_opened(kind, name, saved):
    (saved / name).unlink()
    if kind == "pipe":
        os.mkfifo(saved / name)
    elif kind == "device":
        (saved / name).symlink_to("/dev/zero")
    else:
        (saved / name).mkdir()
    for read in (load_model, read_run):
        with pytest.raises(ModelFileError, match=r"must be a regular file|must have [\d,]+ bytes"):
            read(saved)


def test_a_second_interrupt_does_not_print_a_traceback(saved, monkeypatch):
    """The lock is released when it is collected; pytest turns an exception there into an error."""
    close, interrupted = os.close, []

    def interrupt(descriptor):
        close(descriptor)
        interrupted.append(descriptor)
        raise KeyboardInterrupt

    lock = FolderLock(saved)
    with monkeypatch.context() as patch:
        patch.setattr(os, "close", interrupt)
        del lock
        gc.collect()
    assert len(interrupted) == 1
    FolderLock(saved).release()
    FolderLock.__new__(FolderLock).__del__()  # interrupted before it was initialised


def test_a_run_that_is_refused_is_not_locked(saved):
    (saved / layout.layer_name(1)).write_bytes(b"")
    with pytest.raises(ModelFileError) as error:
        read_run(saved)
    FolderLock(saved).release()
    assert "00001" in str(error.value)


def test_an_interrupted_training_command_keeps_the_old_model(tmp_path, monkeypatch):
    words = ["train", "digits", "--limit", 60, "--filters", 4, "--bank", "pca", "--layers", 3, "--out", tmp_path / "m"]
    run = partial(CliRunner().invoke, app)
    assert run([*map(str, words), "--json"]).exit_code == 0
    before, add_layer = content_of(tmp_path / "m"), ModelWriter.add_layer

    def interrupt(writer, layer, record):
        if record.layer == 3:
            raise KeyboardInterrupt
        add_layer(writer, layer, record)

    monkeypatch.setattr(ModelWriter, "add_layer", interrupt)
    done = run([*map(str, words), "--seed", "1", "--overwrite"])
    beside = tmp_path / "m.partial"
    assert done.exit_code == 130 and content_of(tmp_path / "m") == before
    assert f"2 layers are finished and usable, in {beside}; {tmp_path / 'm'} was not replaced" in done.output
    monkeypatch.setattr(ModelWriter, "add_layer", add_layer)
    shown = run(["info", str(tmp_path / "m")]).output
    assert f"a run that was to replace it is in {beside}" in shown.replace("\n", " ")
    refused = run([*map(str, words), "--overwrite"])
    assert refused.exit_code == 2 and f"--resume {beside}" in refused.output
    assert run(["train", "--resume", str(beside)]).exit_code == 0
    assert len(load_model(beside).history) == 3 and content_of(tmp_path / "m") == before
