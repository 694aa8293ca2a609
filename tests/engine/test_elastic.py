"""`torchrun --max-restarts`: a rank is killed, all are started anew, and what they learn is as if nothing had been."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import models
import warm
from program import environment

LINE = ["pretrain", "pairs.jsonl", "--num-layers", "1", "--hidden-size", "32", "--num-heads", "2", "--device", "cpu"]
LINE += ["--batch-size", "16", "--steps", "150", "--save-every", "5", "--max-length", "64", "--force"]


def start(folder: Path, out: str) -> subprocess.Popen[bytes]:
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1"]
    command = [sys.executable, "-m", *torchrun, "--monitor-interval", "0.1", "-m", "bertcli", *LINE, "-o", out]
    with (folder / f"{out}.err").open("wb") as err:
        return subprocess.Popen(command, cwd=folder, env=environment(), stdout=subprocess.DEVNULL, stderr=err)


def test_a_killed_rank_is_started_anew_and_the_run_is_the_whole_one(tmp_path: Path) -> None:
    """Over an old model, too, which --force lets the first start overwrite, but not the second."""
    (tmp_path / "pairs.jsonl").write_bytes(models.lines(models.pairs(300, longest=25)))
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in models.PIECES))
    models.save(models.theirs("BertForPreTraining"), tmp_path / "hit")
    whole = start(tmp_path, "whole")
    assert whole.wait() == 0, (tmp_path / "whole.err").read_text()
    run = start(tmp_path, "hit")
    log, ends = tmp_path / "hit" / "log.jsonl", time.monotonic() + 3 * warm.PATIENCE
    while not (log.exists() and log.read_bytes().count(b"\n") > 20):
        assert time.monotonic() < ends
        assert run.poll() is None, (tmp_path / "hit.err").read_text()
        time.sleep(0.01)
    *_, last = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    os.kill(int(last), signal.SIGKILL)
    assert run.wait() == 0, (tmp_path / "hit.err").read_text()
    told = (tmp_path / "hit.err").read_text()
    assert "resuming after step " in told
    assert "the input is the same: it goes on at its place" in told
    weights = [(tmp_path / out / "model.safetensors").read_bytes() for out in ("whole", "hit")]
    assert weights[0] == weights[1]
