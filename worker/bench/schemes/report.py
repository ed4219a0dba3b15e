# SPDX-License-Identifier: BSD-3-Clause
"""What bench_schemes prints: tables as Markdown, and pictures by gnuplot."""
import os
import platform
import shutil
import statistics
import subprocess
import time

from schemes import arms, costs, layouts

TITLE = {"A": "Task A: from new weights", "B": "Task B: fine-tuning"}
# Of schemes, in their order; enough for the eight of task B.
COLOURS = ["#1f77b4", "#d62728", "#ff7f0e", "#9467bd", "#2ca02c", "#8c564b", "#e377c2", "#17becf"]
PLACES = 3  # digits of bits per byte


def now():
    return time.strftime("%H:%M:%S")


def _first_line(command):
    out = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return (out.stdout + out.stderr).split("\n")[0].strip()


def machine(o):
    """Machine and versions."""
    with open("/proc/cpuinfo") as f:
        cpu = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), platform.machine())
    programs = [_first_line([o.worker, "--version"]), _first_line([o.dynpipe, "--version"]), f"Python {platform.python_version()}"]
    if shutil.which("gnuplot"):
        programs.append(_first_line(["gnuplot", "--version"]))
    load = "load average " + " ".join(f"{x:.1f}" for x in os.getloadavg())
    return [f"machine: {cpu}, {os.cpu_count()} cores; {load}", "programs: " + "; ".join(programs),
            f"settings: {o.steps} steps (fine-tuning {o.tune_steps}), {o.blocks} blocks of {o.channels} channels, {o.devices} devices, "
            f"{o.jobs} runs at a time" + "".join(f", {k}={v}" for k, v in o.overrides.items())]


def _table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def _with_interval(values, places, sign=""):
    if not values:
        return "-"
    mean, half = costs.interval(values)
    is_one = half is None or min(values) == max(values)  # known steps cost the same whatever the seed
    return f"{mean:{sign}.{places}f}" + ("" if is_one else f" ± {half:.{places}f}")


def _seconds(s):
    return f"{s:.2f}" if s >= 0.1 else f"{s:.2g}"


class Task:
    """The runs of one task by arm and seed."""

    def __init__(self, name, done, all_costs):
        self.name, self.costs, self.runs = name, all_costs, {}
        for run in done:
            if run.task == name:
                self.runs.setdefault(run.arm, {})[run.seed] = run
        self.device_s = {(arm, seed): all_costs.device_s(run) for arm, by in self.runs.items() for seed, run in by.items()}

    def schemes(self):
        return [arm for arm in self.runs if not arm.startswith(("dense", "smaller"))]

    def end(self, arm, seed):
        """Device-seconds, bits per byte."""
        return self.device_s[arm, seed][-1], self.runs[arm][seed].loss()

    def curve(self, prefix, seed):
        """What so many device-seconds reach without a scheme; None where a run of the curve is missing."""
        names = [arms.DENSE] + [f"{prefix}-{p}" for p in (arms.STOPPED if prefix == arms.DENSE else arms.SMALLER)]
        if any(seed not in self.runs.get(name, {}) for name in names):
            return None
        return [self.end(name, seed) for name in names]

    def under_way(self, seed):
        """Where the dense run was when it had taken so many device-seconds: where it could have been cut."""
        return [(self.device_s[arms.DENSE, seed][step], loss) for step, loss in self.runs[arms.DENSE][seed].evals]

    def against(self, arm, prefix):
        """Bits per byte more than without a scheme at equal device-seconds, of each seed where that is known. Of a dense run that
        was cut and one that was planned so short, the better one."""
        out = []
        for seed in self.runs[arm]:
            curve, (x, y) = self.curve(prefix, seed), self.end(arm, seed)
            if not curve:
                continue
            bases = [costs.at(curve, x)] + ([costs.at(self.under_way(seed), x)] if prefix == arms.DENSE else [])
            known = [base for base in bases if base is not None]
            if known:
                out.append(y - min(known))
        return out

    def results(self):
        rows = []
        for arm, by in self.runs.items():
            ends = [self.end(arm, seed) for seed in by]
            first = next(iter(by.values()))
            tokens = len(first.states) * first.header["microbatches"] * first.header["tokens_per_microbatch"]
            reached = [run.states[-1] for run in by.values()]
            is_scheme = arm in self.schemes()
            rows.append([
                arm, str(len(by)), str(len(first.states)), _with_interval([y for _, y in ends], PLACES),
                _with_interval([x for x, _ in ends], 2),
                f"{tokens / statistics.fmean(x for x, _ in ends):.0f}",
                f"{statistics.fmean(s[2] for s in reached):.1f}", f"{100 * statistics.fmean(s[3] for s in reached):.0f}",
                _with_interval(self.against(arm, arms.DENSE), PLACES, "+") if is_scheme else "",
                _with_interval(self.against(arm, "smaller"), PLACES, "+") if is_scheme else "",
            ])
        return _table(["arm", "seeds", "steps", "bits/byte", "device-s", "tokens per device-s", "frozen in the end", "% zeros",
                       "more bits/byte than dense, stopped early", "than a smaller dense model"], rows)

    def verdicts(self):
        """A line for each scheme; the ones that lose first."""
        lines = []
        for arm in self.schemes():
            for prefix, what in ((arms.DENSE, "dense, stopped early"), ("smaller", "a smaller dense model")):
                more = self.against(arm, prefix)
                if not more:
                    lines.append((3, f"- {arm}: {what} of as many device-seconds is outside of what was run"))
                    continue
                mean, half = costs.interval(more)
                value = f"{_with_interval(more, PLACES, '+')} bits/byte"
                if half is None:
                    lines.append((2, f"- {arm} against {what}: {value}; of one seed, which says little"))
                elif mean - half > 0:
                    lines.append((0, f"- {arm} **loses** to {what}: {value}"))
                elif mean + half < 0:
                    lines.append((1, f"- {arm} is better than {what}: {value}"))
                else:
                    lines.append((2, f"- {arm} against {what}: {value}; the interval has 0 in it, nothing is decided"))
        return [text for _, text in sorted(lines, key=lambda line: line[0])] + [""]

    def balancing(self, player):
        """Tables of what dynpipe simulate makes of the first seed's runs."""
        kept, packed = [], []
        for arm in [arms.DENSE, *self.schemes()]:
            if arm not in self.runs:
                continue
            run = self.runs[arm][min(self.runs[arm])]
            ways = player.play(run, self.costs)
            base = ways["keep"][0]
            kept.append([arm] + [_seconds(ways[p][0].time_s) for p in layouts.POLICIES] + [f"{ways['iteration'][0].tokens_per_s:.0f}"])
            row = [arm, _seconds(base.device_s)]
            for p in layouts.POLICIES[1:]:
                one = ways[p][1]
                row.append(f"{_seconds(one.device_s)} ({one.devices} in the end, {100 * (one.time_s / base.time_s - 1):+.0f} % time)")
            packed.append(row + [f"{1000 * ways['iteration'][1].pause_s:.2f}"])
        return ([f"Seconds of the run on {player.devices} devices, none given back:", ""] +
                _table(["arm", *layouts.POLICIES, "tokens/s, iteration"], kept) +
                ["Device-seconds held, packed:", ""] +
                _table(["arm", "keep, not packed", *layouts.POLICIES[1:], "pauses in it, ms, iteration"], packed))

    def series(self, arm):
        """[(step, device-seconds, bits per byte)], means of the seeds."""
        by = self.runs[arm]
        columns = zip(*[[(step, self.device_s[arm, seed][step], loss) for step, loss in run.evals] for seed, run in by.items()])
        return [tuple(statistics.fmean(v) for v in zip(*points)) for points in columns]

    def picture(self, path):
        """Loss against steps and against device-seconds. returns whether it was drawn."""
        if not shutil.which("gnuplot"):
            return False
        data, plots = [], []
        names = [arms.DENSE] + [a for a in self.runs if a != arms.DENSE]
        colours = iter(COLOURS)
        for i, arm in enumerate(names):
            points = self.series(arm)
            title = arm
            if arm.startswith(arms.DENSE + "-"):
                points = points[-1:]
                style, title = "points pt 6 lc rgb 'black'", "dense-P" if arm == f"{arms.DENSE}-{arms.STOPPED[0]}" else ""
            elif arm == arms.DENSE:
                style = "lines lw 4 lc rgb 'black'"
            elif arm.startswith("smaller"):
                style = "lines lw 2 lc rgb 'gray50'" + (" dt 2" if arm == f"smaller-{arms.SMALLER[0]}" else "")
            else:
                style = f"lines lw 2 lc rgb '{next(colours)}'"
            data.append(f"$d{i} << END\n" + "".join(f"{s:g} {d:g} {b:g}\n" for s, d, b in points) + "END\n")
            plots.append((i, title, style))
        lowest = min(self.series(a)[-1][2] for a in names)
        lines = ["set terminal svg size 1200,480 font 'sans,12' background 'white'", f"set output '{path}'", *data,
                 f"set multiplot layout 1,2 title '{TITLE[self.name]}'", "set grid", "set ylabel 'validation, bits per byte'",
                 f"set yrange [{lowest - 0.05:g}:{lowest + 0.8:g}]"]
        for column, label in ((1, "steps"), (2, "device-seconds")):
            lines += [f"set xlabel '{label}'", "unset key" if column == 1 else "set key inside top right font ',10'"]
            lines.append("plot " + ", ".join(f"$d{i} using {column}:3 with {style} title '{title}'" for i, title, style in plots))
        out = subprocess.run(["gnuplot"], input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
        if out.returncode:
            raise OSError(f"gnuplot: {out.stderr.strip()}")
        return True


def write(o, done, player):
    """Writes report.md and the pictures into --out. returns the report."""
    lines = machine(o) + [""] + arms.meaning(o.blocks) + [""]
    all_costs = costs.Costs(done)
    for name in sorted({run.task for run in done}):
        task = Task(name, done, all_costs)
        lines += [f"### {TITLE[name]}", ""] + task.results() + task.verdicts()
        if task.picture(os.path.join(o.out, f"schemes-{name.lower()}.svg")):
            lines += [f"![{TITLE[name]}: bits per byte against steps and against device-seconds](schemes-{name.lower()}.svg)", ""]
        lines += task.balancing(player)
    text = "\n".join(lines)
    with open(os.path.join(o.out, "report.md"), "w") as f:
        f.write(text)
    return text
