# SPDX-License-Identifier: BSD-3-Clause
"""Trains what bench_schemes asks for, one worker a run, and reads what runs left: a folder for each finished run."""
import json
import math
import os
import shutil
import signal
import subprocess
import threading

BEGUN = ".part"  # behind the folder's name while its run has not ended


class Failed(Exception):
    pass


class Job:
    """A run to be made: an arm of a task with a seed."""

    def __init__(self, task, arm, seed):
        self.task, self.arm, self.seed = task, arm, seed
        self.name = f"{task}-{arm.name}-{seed}"

    def parent(self):
        return f"A-{self.arm.parent}-{self.seed}" if self.task == "B" else None


class Trainer:
    """Makes the runs of a list, in its order, some at a time. conf: {task: configuration file}; keys: of all runs, over those of conf."""

    def __init__(self, worker, folder, conf, keys):
        self.worker, self.folder, self.conf, self.keys = worker, folder, conf, keys
        self.changed = threading.Condition()
        self.waiting, self.children, self.error = [], set(), None

    def is_done(self, name):
        return os.path.isdir(os.path.join(self.folder, name))

    def weights(self, name):
        """The newest checkpoint of a run."""
        saved = os.path.join(self.folder, name, "saved")
        steps = sorted(e for e in os.listdir(saved) if e.startswith("step-")) if os.path.isdir(saved) else []
        if not steps:
            raise Failed(f"{saved}: no checkpoint; remove {os.path.dirname(saved)} to train it again")
        return os.path.join(saved, steps[-1])

    def command(self, job, folder):
        keys = {**self.keys, **job.arm.keys, "train.seed": job.seed, "output.log": f"{folder}/log.jsonl", "output.trace": f"{folder}/trace",
                "checkpoint.dir": f"{folder}/saved" if job.task == "A" and job.arm.keeps else ""}
        if job.parent():
            keys["checkpoint.weights"] = self.weights(job.parent())
        return [self.worker, "--quiet", self.conf[job.task], *(f"{k}={v}" for k, v in keys.items())]

    def make(self, job):
        final = os.path.join(self.folder, job.name)
        begun = final + BEGUN
        shutil.rmtree(begun, ignore_errors=True)
        os.makedirs(begun)
        with open(f"{begun}/out", "wb") as out:
            with self.changed:
                if self.error:
                    return
                child = subprocess.Popen(self.command(job, begun), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
                self.children.add(child)
            rc = child.wait()
        with self.changed:
            self.children.discard(child)
        if rc:
            with open(f"{begun}/out", errors="replace") as out:
                raise Failed(f"{job.name}: the worker ended with {rc}: {''.join(out.readlines()[-3:]).strip()}")
        os.rename(begun, final)

    def next(self):
        """The first job whose parent is there; None: no more."""
        with self.changed:
            while self.waiting and not self.error:
                for job in self.waiting:
                    if not job.parent() or self.is_done(job.parent()):
                        self.waiting.remove(job)
                        return job
                self.changed.wait()
        return None

    def work(self, tell):
        try:
            while job := self.next():
                self.make(job)
                with self.changed:
                    self.changed.notify_all()
                    if not self.error:
                        tell(job.name)
        except Exception as e:  # whatever it is: the others must not wait for this thread's run
            self.stop(e)

    def stop(self, error):
        """No more jobs; the runs that are under way end, and their folders do not count."""
        with self.changed:
            self.error = self.error or error
            for child in self.children:
                child.send_signal(signal.SIGKILL)
            self.changed.notify_all()

    def run(self, jobs, at_once, tell):
        """Raises what went wrong first."""
        self.waiting = [job for job in jobs if not self.is_done(job.name)]
        threads = [threading.Thread(target=self.work, args=(tell,)) for _ in range(at_once)]
        for t in threads:
            t.start()
        try:
            for t in threads:
                t.join()
        except BaseException as e:
            self.stop(e)
            for t in threads:
                t.join()
            raise
        if self.error:
            raise self.error


class Window:
    """A line of a trace: what one step cost, in ns of device time. state: see Run."""

    def __init__(self, line, state):
        self.state, self.busy, self.layers = state, line["busy_ns"], line["layers"]
        self.rest = line["optimizer_ns"] + line["rest_ns"]


class Run:
    """What a finished run left.

    states: of each step, what its costs depend on: (blocks, dropout, frozen layers, sparsity)
    evals: [(step, bits per byte)]
    windows: costs, each of one state
    """

    def __init__(self, folder, job):
        self.task, self.arm, self.seed = job.task, job.arm.name, job.seed
        self.states, self.evals, self.windows = [], [], []
        path = os.path.join(folder, job.name)
        drop = job.arm.keys.get("drop.rate", 0)
        try:
            for line in self.lines(f"{path}/log.jsonl"):
                if line.get("event") == "eval":
                    self.evals.append((line["step"], line["value"] / math.log(2)))
                elif "loss" in line:
                    self.states.append((job.arm.blocks, drop, line["frozen"], round(line["sparsity"], 3)))
            header, *windows = self.lines(f"{path}/trace.0")
            self.header = header
            for line in windows:
                self.windows.append(Window(line, self.states[line["step"] - 1]))
        except (OSError, ValueError, KeyError, IndexError) as e:
            raise Failed(f"{path}: {type(e).__name__} {e}; remove it to train it again")
        if not self.evals or not self.windows:
            raise Failed(f"{path}: no validation or no costs; remove it to train it again")

    @staticmethod
    def lines(path):
        with open(path) as f:
            return [json.loads(line) for line in f]

    def loss(self):
        return self.evals[-1][1]
