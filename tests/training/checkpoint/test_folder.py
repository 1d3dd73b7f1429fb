"""Checkpoints on disk: whole or not there, verified, the newest whole one found."""

from __future__ import annotations

import fcntl
import json
import os
import re
import resource
import shutil
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from mixprec.training.checkpoint import (
    CheckpointDamaged,
    CheckpointNotWritten,
    find_checkpoints,
    read_checkpoint,
    write_checkpoint,
)

STATE = {"model": {"w": torch.arange(6.0).reshape(2, 3)}, "optimizers": {"m": torch.ones(3)}, "session": {"applied": 3}}


def names(root):
    return sorted(path.name for path in root.iterdir() if path.name != ".lock")


def test_what_was_written_is_read(tmp_path):
    path = write_checkpoint(tmp_path / "a" / "b", 123, STATE)
    assert path == tmp_path / "a" / "b" / "step-00000123"
    assert names(path) == ["manifest.json", "model.safetensors", "optimizers.safetensors", "state.json"]
    for where in (path, path.parent):
        checkpoint = read_checkpoint(where)
        assert checkpoint.manifest.step == 123
        assert checkpoint.parts["session"] == {"applied": 3}
        assert torch.equal(checkpoint.parts["model"]["w"], STATE["model"]["w"])
        assert checkpoint.damaged == ()
    assert torch.equal(load_file(path / "model.safetensors")["w"], STATE["model"]["w"]), "other tools read it"
    facts = json.loads((path / "manifest.json").read_text())["facts"]
    assert facts["torch"] == torch.__version__
    assert facts["threads"] == torch.get_num_threads()


def test_old_ones_go_and_the_last_saved_is_the_newest(tmp_path):
    for step in (1, 2, 3):
        write_checkpoint(tmp_path, step, STATE)
    assert names(tmp_path) == ["step-00000002", "step-00000003"]
    write_checkpoint(tmp_path, 3, STATE)  # never over another one
    write_checkpoint(tmp_path, 1, STATE)  # a run that went back
    assert [found.path.name for found in find_checkpoints(tmp_path)] == ["step-00000001", "step-00000003-2"]
    assert read_checkpoint(tmp_path).manifest.step == 1
    for step in (5, 6, 7):
        write_checkpoint(tmp_path, step, STATE, keep=None)
    assert len(names(tmp_path)) == 5
    write_checkpoint(tmp_path, 8, STATE, keep=1)
    assert names(tmp_path) == ["step-00000008"]
    with pytest.raises(ValueError, match="keep is 0, expected 1 or more"):
        write_checkpoint(tmp_path, 9, STATE, keep=0)


def test_damaged_ones_do_not_count_as_kept(tmp_path):
    write_checkpoint(tmp_path, 1, STATE)
    damaged = write_checkpoint(tmp_path, 2, STATE)
    (damaged / "model.safetensors").unlink()
    write_checkpoint(tmp_path, 3, STATE)
    assert names(tmp_path) == ["step-00000001", "step-00000002", "step-00000003"]
    write_checkpoint(tmp_path, 4, STATE)
    assert names(tmp_path) == ["step-00000003", "step-00000004"]


def test_leftovers_of_a_kill_are_no_checkpoints_and_are_removed(tmp_path):
    path = write_checkpoint(tmp_path, 1, STATE)
    shutil.copytree(path, tmp_path / ".saving-step-00000002")
    shutil.copytree(path, tmp_path / ".removing-step-00000000")
    assert read_checkpoint(tmp_path).path == path
    write_checkpoint(tmp_path, 2, STATE)
    assert names(tmp_path) == ["step-00000001", "step-00000002"]


@pytest.mark.parametrize("name", ["manifest.json", "state.json", "model.safetensors", "optimizers.safetensors"])
@pytest.mark.parametrize("how", ["missing", "cut", "longer", "empty", "flipped"])
def test_every_damage_is_told_and_passed_over(tmp_path, name, how):
    write_checkpoint(tmp_path, 1, STATE)
    path = write_checkpoint(tmp_path, 2, STATE)
    whole = (path / name).read_bytes()
    damages = {"cut": [whole[:-1], whole[: len(whole) // 2]], "longer": [whole + b"\0"], "empty": [b""]}
    damages["flipped"] = [
        whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :]
        for at in sorted({0, 7, 8, len(whole) // 3, len(whole) // 2, len(whole) - 1})
        for bit in (1, 32, 128)
    ]
    for damage in damages.get(how, [None]):
        (path / name).unlink() if damage is None else (path / name).write_bytes(damage)
        checkpoint = read_checkpoint(tmp_path)
        assert checkpoint.manifest.step == 1
        (told,) = checkpoint.damaged
        assert str(path) in told
        assert name in told
        with pytest.raises(CheckpointDamaged, match=re.escape(name)):
            read_checkpoint(path)
    (path / name).write_bytes(whole)
    assert read_checkpoint(tmp_path).manifest.step == 2


def test_messages_of_damage_say_what_was_got_and_expected(tmp_path):
    path = write_checkpoint(tmp_path, 1, STATE)
    model = path / "model.safetensors"
    data = model.read_bytes()
    model.write_bytes(data[:-4])
    with pytest.raises(CheckpointDamaged, match=f"model.safetensors is cut off: got {len(data) - 4} bytes, expected"):
        read_checkpoint(tmp_path)
    model.write_bytes(data[:-4] + b"abcd")
    with pytest.raises(CheckpointDamaged, match=r"no checkpoint in .* is whole: .* changed bytes: got SHA-256 .{16}"):
        read_checkpoint(tmp_path)


def test_nothing_there_is_an_error(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FileNotFoundError, match=r"holds no checkpoint: give the folder that session.save\(\)"):
            read_checkpoint(path)
    with pytest.raises(FileNotFoundError, match=r"no checkpoint .*step-00000001"):
        read_checkpoint(tmp_path / "step-00000001")


def test_two_writers_are_refused(tmp_path):
    write_checkpoint(tmp_path, 1, STATE)
    with open(tmp_path / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="another process is saving in"):
            write_checkpoint(tmp_path, 2, STATE)
    write_checkpoint(tmp_path, 2, STATE)


def test_a_file_that_cannot_grow_leaves_the_earlier_one(tmp_path):
    first = write_checkpoint(tmp_path, 1, STATE)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    big = STATE | {"model": {"w": torch.ones(100_000)}}
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
    try:
        with pytest.raises(CheckpointNotWritten) as caught:
            write_checkpoint(tmp_path, 2, big)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "the checkpoint of step 2 was not written: File too large" in str(caught.value)
    assert f"the checkpoint before it stands ({first})" in str(caught.value)
    assert names(tmp_path) == ["step-00000001"]
    assert write_checkpoint(tmp_path, 2, big).name == "step-00000002"


def test_a_path_that_is_a_file_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointNotWritten, match="there is no checkpoint before it"):
        write_checkpoint(tmp_path / "file", 1, STATE)


FULL = """
import os, sys, torch
from mixprec.training.checkpoint import CheckpointNotWritten, read_checkpoint, write_checkpoint
root = sys.argv[1]
first = write_checkpoint(root, 1, {"model": {"w": torch.ones(100_000)}})
try:
    write_checkpoint(root, 2, {"model": {"w": torch.ones(400_000)}})
except CheckpointNotWritten as error:
    print(error)
print(sorted(os.listdir(root)), read_checkpoint(root).manifest.step)
write_checkpoint(root, 3, {"model": {"w": torch.ones(100_000)}})
print(read_checkpoint(root).manifest.step)
"""


def test_a_full_disk_leaves_the_earlier_one(tmp_path):
    mount = f"mount -t tmpfs -o size=1m none {tmp_path}"
    probe = subprocess.run(["unshare", "-Urm", "sh", "-c", mount], capture_output=True, check=False)
    if not shutil.which("unshare") or probe.returncode:
        pytest.skip("no small disk can be mounted here")
    command = f"{mount} && exec {sys.executable} -c '{FULL}' {tmp_path}"
    done = subprocess.run(["unshare", "-Urm", "sh", "-c", command], capture_output=True, text=True, env=os.environ)
    message, listing, last = done.stdout.splitlines()
    assert "step 2 was not written: No space left on device" in message, done.stderr
    assert "it takes 1.6 MB" in message
    assert "step-00000001) stands" in message or "stands (" in message
    assert listing == "['.lock', 'step-00000001'] 1"
    assert last == "3"
