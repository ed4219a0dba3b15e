# SPDX-License-Identifier: BSD-3-Clause
"""Answers of `dynpipe plan`, a line of JSON each, kept as they come: whoever is interrupted goes on where it was."""
import json
import os
import resource
import signal
import subprocess

from plans.questions import Failed

PLAN, REFUSED, LATE = "plan", "refused", "late"
KEPT = ("load_ns", "bound_ns", "single_device_ns", "data_parallel_ns", "line_ns", "orders", "is_optimal", "was_ended", "objective",
        "algorithm", "units", "ideals")


class Row:
    def __init__(self, fields):
        self.__dict__.update(fields)

    def key(self):
        return (self.graph, self.devices, self.bandwidth, self.asked, self.long)

    def question(self):
        """Rows with the same one are compared: a plan's transfers take time of its devices, or of links."""
        return (self.graph, self.devices, self.bandwidth, self.has_links)

    def is_plan(self):
        return self.status == PLAN


def ask(o, question):
    """One answer. The limit is CPU time, so that other work on the machine does not decide it."""
    limit = max(o.limit, 4 * question.long)
    command = [o.dynpipe, *question.command()]
    if question.algorithm in o.weights:
        command.append(f"--weights={o.weights[question.algorithm]}")
    begin = lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))  # noqa: E731
    fields = {"graph": question.graph.name, "source": question.graph.source, "kind": question.graph.kind, "levels": question.levels,
              "devices": question.devices, "bandwidth": question.bandwidth, "asked": question.algorithm, "long": question.long,
              "limit": limit}
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=open(o.out + "/stderr", "w+", encoding="utf-8"), text=True, preexec_fn=begin) as child:
        try:
            text = child.stdout.read()
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        except BaseException:
            child.kill()
            raise
    fields["seconds"] = round(usage.ru_utime + usage.ru_stime, 4)
    if child.returncode == -signal.SIGXCPU:
        return Row({**fields, "status": LATE, "why": f"no answer within {limit} s"})
    if child.returncode:
        with open(o.out + "/stderr", encoding="utf-8") as f:
            lines = f.read().strip().split("\n")
        if child.returncode < 0:
            raise Failed(f"dynpipe {' '.join(command[1:])}: ended by signal {-child.returncode}")
        return Row({**fields, "status": REFUSED, "why": lines[-1][:300]})
    plan = json.loads(text)["plan"]
    fields.update({name: plan.get(name) for name in KEPT})
    prediction = plan["prediction"] or {}
    fields.update(status=PLAN, why=plan["why"], iteration_ns=prediction.get("iteration_ns"), stages=len(plan["stages"]),
                  iteration_of=[prediction.get("microbatches"), plan["microbatch"]], has_links=plan["data_parallel_ns"] is not None)
    return Row(fields)


class Store:
    """The file. Its first line says of which program and which limits the rows are."""

    def __init__(self, path, settings):
        self.path, self.settings, self.rows, whole = path, settings, {}, 0
        if os.path.exists(path):
            with open(path, "rb") as f:
                lines = f.read().split(b"\n")
            whole = sum(len(line) + 1 for line in lines[:-1])  # what a kill left of the last line does not count
            for i, line in enumerate(lines[:-1]):
                try:
                    fields = json.loads(line)
                except ValueError as e:
                    raise Failed(f"{path}: line {i + 1}: {e}") from e
                if i == 0:
                    self._check(fields, settings)
                else:
                    row = Row(fields)
                    self.rows[row.key()] = row
        self.file = open(path, "ab")  # until the end of the program
        self.file.truncate(whole)
        if not whole:
            self._write(settings)

    def _check(self, old, settings):
        for name, value in settings.items():
            if old.get(name) != value:
                raise Failed(f"{self.path}: its rows have {name} {json.dumps(old.get(name))}, not {json.dumps(value)}: take another --out")

    def _write(self, fields):
        self.file.write((json.dumps(fields) + "\n").encode())
        self.file.flush()

    def add(self, row):
        self._write(row.__dict__)
        self.rows[row.key()] = row
