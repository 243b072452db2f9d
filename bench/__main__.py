"""Run every benchmark, each in a process of its own."""

import subprocess
import sys

NAMES = ("startup", "call_overhead", "recurrence", "gmm", "lstm", "networks", "ratio")

if __name__ == "__main__":
    command = [sys.executable, "-m"]
    failed = [name for name in NAMES if subprocess.run([*command, f"bench.{name}", *sys.argv[1:]]).returncode]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")
