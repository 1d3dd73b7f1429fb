"""Runs that are killed, run out of disk or find damage: they continue bit for bit, and nothing acknowledged is lost."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SERVER = Path(__file__).parent / "killed_training.py"
KILLS = 50


class Server:
    """Forks runs on request."""

    def __init__(self, *wrapper: str) -> None:
        self.process = subprocess.Popen(
            [*wrapper, sys.executable, "-W", "ignore", str(SERVER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def run(self, run: Path, **request):
        self.process.stdin.write(json.dumps({"run": str(run), **request}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def server():
    server = Server()
    yield server
    server.close()


@pytest.fixture(scope="module")
def whole(server, tmp_path_factory):
    """What a run says that is never killed; and how long it takes."""
    runs = [server.run(tmp_path_factory.mktemp("whole") / "run") for _ in range(2)]
    assert runs[0]["said"] == runs[1]["said"], "the run itself must be deterministic"
    assert runs[0]["said"][0] == "resumed 0", runs[0]["said"]
    return runs[1]


def told(answer, word):
    return [line.partition(" ")[2] for line in answer["said"] if line.startswith(word + " ")]


def last_saved(answer):
    return max(map(int, told(answer, "saved")), default=0)


def check_continued(answer, whole, at_least):
    assert not told(answer, "error"), answer["said"]
    assert int(told(answer, "resumed")[0]) >= at_least, "what was acknowledged is lost"
    assert told(answer, "done") == told(whole, "done"), "the run differs from the one that was never killed"


def test_a_run_that_is_killed_at_any_instant_continues(server, whole, tmp_path):
    draw = random.Random(11)
    killed, left_over = 0, 0
    for number in range(KILLS):
        run = tmp_path / str(number)
        first = server.run(run, kill_after=draw.uniform(0.05, 1.0) * whole["seconds"])
        acknowledged = last_saved(first)
        killed += first["killed"]
        left_over += bool(list((run / "checkpoints").glob(".*-step-*")))
        if number % 5 == 0:  # and once more
            again = server.run(run, kill_after=draw.uniform(0.1, 1.0) * whole["seconds"])
            acknowledged = max(acknowledged, last_saved(again))
        last = server.run(run)
        check_continued(last, whole, acknowledged)
        if last_saved(last):
            assert not list((run / "checkpoints").glob(".*-step-*")), "a save removes what a kill has left"
    assert killed >= KILLS * 0.6
    assert left_over, "no kill hit a save: the instants are not spread"


def test_a_save_that_is_killed_before_any_access_to_a_file_continues(server, whole, tmp_path):
    """The third save, which also removes an older checkpoint, is killed before each of its accesses to files."""
    for number in range(200):
        run = tmp_path / str(number)
        first = server.run(run, kill_at_save=6, kill_at_event=number)
        if not first["killed"]:
            break
        assert last_saved(first) == 4
        check_continued(server.run(run), whole, 4)
    assert number > 20, "a save has more accesses than that"
    assert told(first, "done") == told(whole, "done")


def test_files_that_may_not_grow(server, whole, tmp_path):
    answer = server.run(tmp_path / "run", limit_at=8, limit=3000)
    (failed,) = told(answer, "failed")
    assert failed.startswith("8 [Errno 27] save: the checkpoint of step 7 was not written: File too large")
    assert "the checkpoint before it stands" in failed
    check_continued(answer, whole, 0)
    assert told(answer, "saved") == ["2", "4", "6", "10"]


def test_a_disk_that_is_full(whole, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=2m none {disk}"
    if not shutil.which("unshare") or subprocess.run(["unshare", "-Urm", "sh", "-c", mount], check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    server = Server("unshare", "-Urm", "sh", "-c", f'{mount} && exec "$@"', "sh")
    request = {"folder": str(disk / "checkpoints"), "filler": str(disk / "filler")}
    answer = server.run(tmp_path / "run", full_at=8, **request)
    (failed,) = told(answer, "failed")
    assert "step 7 was not written: No space left on device" in failed
    assert told(answer, "saved") == ["2", "4", "6", "10"]
    check_continued(answer, whole, 0)
    server.close()


@pytest.mark.parametrize("name", ["manifest.json", "state.json", "model", "optimizers", "session"])
def test_a_damaged_file_is_told_and_the_run_continues_from_the_one_before(server, whole, tmp_path, name):
    server.run(tmp_path / "run", kill_at_save=10, kill_at_event=0)
    newest = sorted((tmp_path / "run" / "checkpoints").glob("step-*"))[-1]
    (file,) = newest.glob(f"{name}*")
    data = file.read_bytes()
    draw = random.Random(name)
    damages = {"cut": data[: draw.randrange(len(data))], "flipped": flip(data, draw), "gone": None}
    for how, damage in damages.items():
        run = tmp_path / how
        shutil.copytree(tmp_path / "run", run)
        target = run / file.relative_to(tmp_path / "run")
        target.unlink() if damage is None else target.write_bytes(damage)
        answer = server.run(run)
        check_continued(answer, whole, 6)
        (message,) = told(answer, "damaged")
        assert newest.name in message
        assert file.name in message
        events = (run / "records.jsonl").read_text()
        assert "checkpoint damaged" in events


def flip(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]


def test_no_whole_checkpoint_is_an_error_that_lists_them(server, tmp_path):
    run = tmp_path / "run"
    server.run(run, kill_at_save=8, kill_at_event=0)
    for file in (run / "checkpoints").glob("step-*/model.safetensors"):
        file.write_bytes(file.read_bytes()[:-1])
    (error,) = told(server.run(run), "error")
    assert "CheckpointDamaged: no checkpoint in" in error
    assert error.count("model.safetensors is cut off: got") == 2
