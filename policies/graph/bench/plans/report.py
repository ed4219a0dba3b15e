# SPDX-License-Identifier: BSD-3-Clause
"""What bench_plans prints: tables as Markdown, and a picture by gnuplot."""
import os
import platform
import shutil
import statistics
import subprocess
import time

from plans import papers
from plans.rows import LATE, REFUSED

TITLES = {False: "One device a stage, transfers take time of the devices", True: "Stages with replicas, transfers take time of links"}
COLOURS = ["#d62728", "#1f77b4", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#7f7f7f"]


def _percent(above, of):
    return 100.0 * (above - of) / of


class Answers:
    """All rows of one kind of plans, beside the best that is known of each question."""

    def __init__(self, rows, has_links):
        self.plans = [r for r in rows if r.is_plan() and r.has_links == has_links]
        self.best, self.bound, self.proven = {}, {}, set()
        for r in self.plans:
            q = r.question()
            self.best[q] = min(self.best.get(q, r.load_ns), r.load_ns)
            self.bound[q] = max(self.bound.get(q, 0), r.bound_ns)
            if r.is_optimal and r.objective == "load":
                self.proven.add(q)

    def gap(self, row):
        """Percent above the best known."""
        return _percent(row.load_ns, self.best[row.question()])

    def gap_to_bound(self, row):
        """Percent that the bound lies below; 0 where the best is proven and this is it."""
        q = row.question()
        if q in self.proven and row.load_ns == self.best[q]:
            return 0.0
        return _percent(row.load_ns, self.best[q] if q in self.proven else self.bound[q])

    def of(self, asked):
        return [r for r in self.plans if r.asked == asked and not r.long]

    def names(self, order):
        return [name for name in order if self.of(name)]


def _table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def _mean_and_worst(values):
    return f"{statistics.fmean(values):.2f}, {max(values):.2f}"


def _planners(rows, answers, order):
    out = []
    for name in answers.names(order):
        mine = answers.of(name)
        late = [r for r in rows if r.asked == name and r.status == LATE and not r.long]
        refused = [r for r in rows if r.asked == name and r.status == REFUSED]
        out.append([f"`{name}`", str(len(mine)), str(len(late)), str(len(refused)), str(sum(answers.gap(r) < 0.005 for r in mine)),
                    _mean_and_worst([answers.gap(r) for r in mine]), _mean_and_worst([answers.gap_to_bound(r) for r in mine]),
                    f"{statistics.median(r.seconds for r in mine):.2f}, {max(r.seconds for r in mine):.2f}"])
    return _table(["planner", "plans", "too late", "refused", "best known", "% above the best known: mean, worst",
                   "% above the bound: mean, worst", "CPU seconds: median, most"], out)


def _split(answers, order, head, value, values):
    """Gaps to the best known, a row for each of `values`."""
    names = answers.names(order)
    out = []
    for one in values:
        row, most = [str(one)], 0
        for name in names:
            mine = [answers.gap(r) for r in answers.of(name) if value(r) == one]
            most = max(most, len(mine))
            row.append(_mean_and_worst(mine) if mine else "-")
        if most:
            out.append([row[0], str(most)] + row[1:])
    return _table([head, "questions"] + [f"`{n}`" for n in names], out)


def _bounds(answers, order):
    """How far the bounds lie below what is best known, where that is not proven by a search over everything."""
    names = answers.names(order)
    open_ones = {q: _percent(answers.best[q], answers.bound[q]) for q in answers.best if q not in answers.proven}
    said = f"Of {len(answers.best)} questions the best is proven for {len(answers.best) - len(open_ones)}"
    if not open_ones:
        return [said + ".", ""]
    return [said + f"; in the others the best known is {statistics.fmean(open_ones.values()):.1f} % above the bound in the mean, "
            f"{max(open_ones.values()):.1f} % at most ({', '.join(names)}).", ""]


def _reasons(rows):
    """Why planners gave no plan, with how often."""
    count = {}
    for r in rows:
        if r.status in (LATE, REFUSED):
            key = (r.asked, r.why.replace(r.graph, "GRAPH").split(": ", 1)[-1])
            count[key] = count.get(key, 0) + 1
    return [f"- `{asked}`, {n} times: {why}" for (asked, why), n in sorted(count.items())] + [""]


def _machine(settings):
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        cpu = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), platform.machine())
    load = " ".join(f"{x:.1f}" for x in os.getloadavg())
    return [f"{time.strftime('%Y-%m-%d')}, {settings['version']}, commit {settings['commit']}; {cpu}, {os.cpu_count()} cores, load average {load}; "
            f"Python {platform.python_version()}. A plan had {settings['limit']} s of CPU time, searches for what is best known "
            f"{settings['long']} s each.", ""]


def _profile(answers, name):
    """[(gap, percent of its questions)]: for how many is it within so much of the best known?"""
    gaps = sorted(max(answers.gap(r), 0.01) for r in answers.of(name))
    return [(0.01, 0.0)] + [(gap, 100.0 * (i + 1) / len(gaps)) for i, gap in enumerate(gaps)] + [(100.0, 100.0)]


def _picture(path, groups, order):
    """returns whether it was drawn."""
    groups = [a for a in groups if a.plans]
    if not shutil.which("gnuplot") or not groups:
        return False
    lines = [f"set terminal svg size {600 * len(groups)},480 font 'sans,12' background 'white'", f"set output '{path}'",
             f"set multiplot layout 1,{len(groups)}", "set grid", "set logscale x", "set xrange [0.01:100]", "set yrange [0:101]",
             "set format x '%g'", "set xlabel '% above the best known load'", "set ylabel '% of the questions that were answered'",
             "set key bottom right"]
    for g, answers in enumerate(groups):
        plots = []
        for i, name in enumerate(answers.names(order)):
            points = "".join(f"{x:g} {y:g}\n" for x, y in _profile(answers, name))
            lines.append(f"$d{g}_{i} << END\n{points}END")
            plots.append(f"$d{g}_{i} using 1:2 with steps lw 2 lc rgb '{COLOURS[i % len(COLOURS)]}' title '{name}'")
        lines += [f"set title '{TITLES[answers.plans[0].has_links]}'", "plot " + ", ".join(plots)]
    run = subprocess.run(["gnuplot"], input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    if run.returncode:
        raise OSError(f"gnuplot: {run.stderr.strip()}")
    return True


def write(o, settings, rows, order, left_out):
    """Writes report.md and graphs.svg into --out. returns the report."""
    groups = [Answers(rows, has_links) for has_links in (False, True)]
    lines = _machine(settings)
    if left_out:
        lines += ["**Not all of it**: " + "; ".join(left_out) + ".", ""]
    if _picture(os.path.join(o.out, "graphs.svg"), groups, order):
        lines += ["![For how many questions each planner is how near to the best known load](graphs.svg)", ""]
    for answers in groups:
        if not answers.plans:
            continue
        graphs = list(dict.fromkeys(r.graph for r in answers.plans))
        networks = list(dict.fromkeys((r.devices, r.bandwidth) for r in answers.plans))
        lines += [f"## {TITLES[answers.plans[0].has_links]}", ""] + _planners(rows, answers, order) + _bounds(answers, order)
        lines += ["Percent above the best known load, mean and worst:", ""]
        lines += _split(answers, order, "graph", lambda r: r.graph, graphs)
        lines += _split(answers, order, "devices, GB/s", lambda r: f"{r.devices}, {r.bandwidth}",
                        [f"{d}, {b}" for d, b in networks])
    published = papers.table([r for r in rows if r.is_plan()])
    if published:
        lines += ["## Beside what papers published", ""]
        lines += _table(["paper", "what", "published", "here", "the same", "not the same"], published) + [papers.UNPUBLISHED, ""]
    if any(not r.is_plan() for r in rows):
        lines += ["## No plan", ""] + _reasons(rows)
    text = "\n".join(lines)
    with open(os.path.join(o.out, "report.md"), "w", encoding="utf-8") as f:
        f.write(text)
    return text
