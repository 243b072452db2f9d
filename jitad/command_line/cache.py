"""``python -m jitad cache``: describes the disk cache, or empties it."""

from __future__ import annotations

import argparse

from .. import disk_store


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("info", "clear"), help="info: folder and size; clear: remove all files")


def run(options: argparse.Namespace) -> None:
    known = disk_store.contents()
    if known.folder is None:
        print("no disk cache: JITAD_CACHE_DIR is empty or no absolute path, or there is no home folder")
    elif options.action == "clear":
        print(f"removed {disk_store.clear()} files from {known.folder}")
    else:
        print(f"{known.folder}: {known.files} files, {_bytes(known.size)} of at most {_bytes(known.limit)}")


def _bytes(n: int) -> str:
    return f"{n / (1 << 20):.1f} MiB" if n >= 1 << 20 else f"{n / (1 << 10):.1f} KiB"
