"""A disk that is soon full."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_ASKED = [] if os.getuid() == 0 else ["sudo", "-n"]


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """Mount a disk of so many kilobytes at a folder; a test is skipped where the system does not let it."""
    folder.mkdir()
    mount = [*_ASKED, "mount", "-t", "tmpfs", "-o", f"size={kilobytes}k,mode=777", "tmpfs", str(folder)]
    if shutil.which(mount[0]) is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this system lets nobody mount a disk")
    try:
        yield folder
    finally:
        subprocess.run([*_ASKED, "umount", "--lazy", str(folder)], check=True)


def fill(folder: Path, leave: int = 0) -> Path:
    """Write a file that leaves so many kilobytes of the disk."""
    path = folder / "filler"
    free = os.statvfs(folder)
    with path.open("wb", buffering=0) as file:
        room = free.f_bavail * free.f_frsize - 1024 * leave
        while room > 0 and (written := file.write(b"\0" * min(room, 65_536))):
            room -= written
    return path


def grow(folder: Path) -> None:
    """Make room."""
    subprocess.run([*_ASKED, "mount", "-o", "remount,size=50m", str(folder)], check=True)
