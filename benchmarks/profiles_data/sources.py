"""The traces of sources.tsv."""

import csv
import functools
import pathlib

FILE = pathlib.Path(__file__).with_name("sources.tsv")


@functools.cache
def sources():
    with open(FILE, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


@functools.cache
def gpu_of(trace):
    """The GPU of a fetched trace; none for a file that is not of the table."""
    name = pathlib.Path(trace).name.split(".")[0]
    return next((source["gpu"] for source in sources() if source["name"] == name), None)


@functools.cache
def repository_of(name):
    """The repository that a fetched trace comes from; its own name for others."""
    return next((source["repository"] for source in sources() if source["name"] == name), name)
