"""The nightly run: kernels with bounds checked, then all tests, slow ones too, with many new random cases.

    python -m tests.nightly [--seed N] [--minutes 60]

It needs the extra `system`. Exit status 0 if everything passed within the time. The seed repeats the same cases.
"""

import argparse
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.helpers.slurm import missing

ROOT = Path(__file__).parents[1]
MINUTES = 60.0
CHECKED = ["bounds", "feasible", "intruder", "risk", "search", "utility"]  # folders of tests/unit that run the kernels


def main() -> None:
    """Prints the seed first, and what became of each part last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 31))
    parser.add_argument("--minutes", type=float, default=MINUTES)
    chosen = parser.parse_args()
    install_slurm()
    print(f"nightly: seed {chosen.seed}, at most {chosen.minutes:g} minutes", flush=True)
    end = time.monotonic() + 60 * chosen.minutes
    outcomes = {name: outcome(command, end) for name, command in parts(chosen.seed).items()}
    for name, (status, seconds) in outcomes.items():
        print(f"nightly: {name}: {status} in {seconds:.0f} s", flush=True)
    print(f"nightly: seed {chosen.seed}", flush=True)
    sys.exit(any(status != "passed" for status, _ in outcomes.values()))


def install_slurm() -> None:
    """Builds are tried on a real SLURM, where Debian's can be installed; else those tests skip and say so."""
    if missing() and shutil.which("apt-get") and os.geteuid() == 0:
        packages = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "slurm-wlm", "munge"]
        for command in (["apt-get", "update", "-qq"], packages):
            with suppress(subprocess.TimeoutExpired):
                subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
    print(f"nightly: {missing() or 'SLURM is installed'}", flush=True)


def parts(seed: int) -> dict[str, list[str]]:
    """The command of each part."""
    python = sys.executable
    seeded = [python, "-m", "pytest", "-q", "--hypothesis-seed", str(seed)]
    tests = [*seeded, "--hypothesis-profile", "nightly", "--slow"]
    return {
        # an index outside of its array is an error there; compiled code is kept apart from that without checks
        "kernels with bounds checked": [
            "env",
            "NUMBA_BOUNDSCHECK=1",
            *seeded,
            *(f"tests/unit/{name}" for name in CHECKED),
        ],
        "system": [*tests, "tests/system"],
        "unit and integration": tests,
    }


def outcome(command: list[str], end: float) -> tuple[str, float]:
    """What became of a command that is given until `end`, and its seconds; it goes with all that it started."""
    begun = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    try:
        status = "failed" if process.wait(max(0.0, end - begun)) else "passed"
    except subprocess.TimeoutExpired:
        status = "not done in time"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return status, time.monotonic() - begun


if __name__ == "__main__":
    main()
