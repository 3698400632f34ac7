"""Which of a job's processes this one is, and where they leave their traces."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Optional

FOLDER = "rooftile_runs"
PATIENCE_S = 60.0


def number(*names: str) -> Optional[int]:
    """The first of these variables that is a number."""
    for name in names:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return None


def rank() -> int:
    """Of this process, from 0."""
    return number("RANK", "SLURM_PROCID") or 0


def ranks() -> int:
    """Processes of the job; 1 without a launcher."""
    return number("WORLD_SIZE", "SLURM_NTASKS") or 1


def job_folder(name: str) -> Path:
    """One folder for all ranks of a job, another one for each job."""
    if ranks() == 1:
        job = time.strftime("%Y%m%d-%H%M%S")
    elif number("LOCAL_WORLD_SIZE") == ranks():  # one launcher started them all
        job = f"job{os.getppid()}"
    else:
        words = ("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "MASTER_PORT")
        job = "job" + "-".join(os.environ[word] for word in words if word in os.environ)
    return Path(FOLDER) / f"{name}-{job}"


def trace_path(folder: Path, index: int) -> Path:
    """Where a rank leaves its trace."""
    return folder / f"rank{index}.json.gz"


def from_here(path: Path) -> str:
    """As short as the reader knows it: relative where it lies below the folder of the program."""
    here = Path.cwd()
    return str(path.relative_to(here) if here in path.parents else path)


def traces_of(folder: Path, count: int, patience_s: float = PATIENCE_S) -> list[Path]:
    """Traces of all ranks that come within the time; those of other machines may never do."""
    wanted = [trace_path(folder, index) for index in range(count)]
    end = time.monotonic() + patience_s
    while time.monotonic() < end and not all(path.exists() for path in wanted):
        time.sleep(0.1)
    return [path for path in wanted if path.exists()]
