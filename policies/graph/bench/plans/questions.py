# SPDX-License-Identifier: BSD-3-Clause
"""What bench_plans asks: graphs, devices, networks; and which of it --only leaves."""
import fnmatch
import os
import subprocess

FOLDERS = ("pipedream", "dnn-partitioning")  # of published graphs
PROFILE, COSTS = "profile", "costs"  # with replicas and bandwidths; with costs of transfers of its own
# One level: GB/s of every link. Two: inside of a machine, between machines.
BANDWIDTHS = {1: ("1.25", "12"), 2: ("12,1.25", "100,12")}
DEVICES = {1: ("2", "4", "8", "16"), 2: ("2x2", "4x2", "4x4", "8x2")}  # 4x2: two machines of four
OWN = "own"  # as many devices, or such costs, as the file says
SIZE, SEED = 120, 1  # of generated graphs
KEYS = ("graph", "source", "levels", "devices", "bandwidth", "algorithm")


class Failed(Exception):
    """The message is for the user."""


class Graph:
    def __init__(self, name, path, source, kind):
        self.name, self.path, self.source, self.kind = name, path, source, kind

    def networks(self, is_short):
        """[(levels, devices, bandwidth)] that it is planned for."""
        if self.kind == COSTS:
            return [(1, devices, OWN) for devices in ((OWN,) if is_short else (OWN, *DEVICES[1]))]
        if is_short:
            return [(1, "2", "1.25"), (1, "4", "1.25"), (2, "2x2", "12,1.25")]
        return [(levels, devices, bandwidth) for levels in (1, 2) for devices in DEVICES[levels] for bandwidth in BANDWIDTHS[levels]]


def published(folder):
    """Graphs of other projects, where they are at hand."""
    out = []
    for name in FOLDERS:
        path = os.path.join(folder, name)
        for file in sorted(os.listdir(path)) if os.path.isdir(path) else []:
            stem, end = os.path.splitext(file)
            if name == "pipedream" and end == ".txt" and stem != "LICENSE":
                out.append(Graph(stem, os.path.join(path, file), name, PROFILE))
            elif end == ".json":
                out.append(Graph(stem, os.path.join(path, file), name, COSTS))
    return out


def generated(program, folder, is_short):
    """Writes what is not there yet."""
    def ask(*words):
        run = subprocess.run([program, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if run.returncode:
            raise Failed(f"{program}: {run.stderr.strip()}")
        return run.stdout

    out, size = [], 24 if is_short else SIZE
    for family in ask("--list").split():
        path = os.path.join(folder, f"{family}-{size}-{SEED}.txt")
        if not os.path.exists(path):
            with open(path + ".part", "w", encoding="ascii") as f:
                f.write(ask(family, str(size), str(SEED)))
            os.rename(path + ".part", path)
        out.append(Graph(f"{family}-{size}", path, "generated", PROFILE))
    return out[:2] if is_short else out


class Question:
    """One network for one graph; `long`: seconds that a search may take to find what is best known, else 0."""

    def __init__(self, graph, levels, devices, bandwidth, algorithm, long=0):
        self.graph, self.levels, self.devices, self.bandwidth = graph, levels, devices, bandwidth
        self.algorithm, self.long = algorithm, long

    def key(self):
        return (self.graph.name, self.devices, self.bandwidth, self.algorithm, self.long)

    def command(self):
        words = ["plan", self.graph.path, "--json", f"--algorithm={self.algorithm}"]
        if self.devices != OWN:
            words.append(f"--devices={self.devices}")
        if self.bandwidth != OWN:
            words.append(f"--bandwidth={self.bandwidth}")
        return words + ([f"--time-limit={self.long}", "--seed=1"] if self.long else [])


class Only:
    """--only KEY=PATTERN: of several with one key any will do, of different keys all must."""

    def __init__(self, words):
        self.patterns = {}
        for word in words:
            key, is_one, pattern = word.partition("=")
            if not is_one or key not in KEYS:
                raise Failed(f"--only '{word}': expected KEY=PATTERN; keys: {', '.join(KEYS)}")
            self.patterns.setdefault(key, []).append(pattern)

    def has(self, graph, levels, devices, bandwidth, algorithm):
        values = {"graph": graph.name, "source": graph.source, "levels": str(levels), "devices": devices, "bandwidth": bandwidth,
                  "algorithm": algorithm}
        return all(any(fnmatch.fnmatchcase(values[key], p) for p in patterns) for key, patterns in self.patterns.items())
