"""Train, kill and resume runs at random moments; print the finished runs and their number of kills as JSON.

One process imports everything once and forks a child for each attempt, so that forty attempts take seconds.

    python kill_at_random.py SOURCE FOLDER KILLS SEED OPTION…
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from rescnet.cli import app, resume, train  # noqa: F401  (so that the children need not import them)


def attempt(words, out):
    """Run a command in a child and return its process id."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        with out.open("a") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
            app(words, standalone_mode=False)
            code = 0
    except BaseException as error:
        print(repr(error), flush=True)
    finally:
        os._exit(code)


def layers_of(place):
    return len(list((place / "layers").glob("*.safetensors")))


def main():
    source, folder, wanted, seed, *options = sys.argv[1:]
    torch.set_num_threads(1)
    rng, out = random.Random(int(seed)), Path(folder) / "said.txt"
    kills, runs = 0, []
    while kills < int(wanted):
        place, here, layers = Path(folder) / f"run{len(runs)}", 0, []
        while True:
            begun, before = (place / "model.json").exists(), layers_of(place)
            words = ["train", "--resume", str(place)] if begun else ["train", source, "--out", str(place), *options]
            start, child = time.monotonic(), attempt(words, out)
            done = 0
            if kills + here >= int(wanted):  # the run may end
                done, status = os.waitpid(child, 0)
            elif here % 2:  # while layers are written
                while not done and layers_of(place) == before:
                    time.sleep(0.002)
                    done, status = os.waitpid(child, os.WNOHANG)
            if not done:
                time.sleep(rng.uniform(0.0, 0.06 if here % 2 else 0.4))
                done, status = os.waitpid(child, os.WNOHANG)
            if not done:
                os.kill(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
            if os.WIFSIGNALED(status):
                here += 1
                layers.append(layers_of(place))
            elif os.WEXITSTATUS(status) == 0:
                break
            else:
                print(out.read_text(), file=sys.stderr)
                raise SystemExit(f"attempt {here} of {place} failed after {time.monotonic() - start:.1f} s")
        kills += here
        runs.append({"place": str(place), "kills": here, "layers": layers})
    print(json.dumps(runs))


if __name__ == "__main__":
    main()
