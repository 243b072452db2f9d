"""``python -m bench.device [--simulate]``: the times of all cases, as text and in ``out/bench/device.json``."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from bench.device.cases import Suite
from jitad import DeviceError
from jitad.gpu.cuda import CudaDriver

OUT = Path("out/bench/device.json")
SIMULATED = 1 << 12              # the sizes are divided by this in the simulator, which is for tests of the benchmarks


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.device", description=__doc__)
    parser.add_argument("--simulate", action="store_true", help="small sizes in the simulator; its times mean nothing")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    try:
        suite = Suite("cuda-sim", SIMULATED) if options.simulate else Suite("cuda")
    except DeviceError as error:
        print(f"no benchmarks without a GPU: {error}", file=sys.stderr)
        return 1
    name = suite.driver.name if isinstance(suite.driver, CudaDriver) else "the simulator"
    print(f"on {name} ({suite.driver.arch})")
    rows, bandwidth = [], 0.0
    for row in suite.rows():
        bandwidth = bandwidth or row.bytes / row.seconds
        print(row.text(bandwidth), flush=True)
        rows.append(asdict(row))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"device": name, "rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
