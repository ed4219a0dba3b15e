# SPDX-License-Identifier: BSD-3-Clause
"""The tests of binding.t, which starts it; prints TAP. Each test has a process of its own: the library is loaded once in a process."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

SCRIPTED = os.environ["DP_SCRIPTED"]
DEADLINE_S = 120  # only a fault meets it
TESTS = []


def test(f):
    TESTS.append(f)
    return f


class Child:
    """Runs lines of Python that have `dynpipe` and join(**more): worker 1 of 3, with 9 layers."""

    def __init__(self, folder, code, script="", **env):
        self.log = Path(folder) / "log"
        (Path(folder) / "script").write_text(script)
        before = ("import dynpipe, math, sys\n"
                  "def join(**more): return dynpipe.join(**{**dict(rank=1, world=3, cut=[0, 3, 6, 9], steps=10, microbatches=4,"
                  " tokens_per_microbatch=32), **more})\n")
        full = {**os.environ, "DYNPIPE_SCRIPT": folder + "/script", "DYNPIPE_SCRIPT_LOG": str(self.log), "DYNPIPE_LIBRARY": SCRIPTED}
        for name in ("DYNPIPE_SOCKET", "SLURM_PROCID", "SLURM_NTASKS"):
            full.pop(name, None)
        for name, value in env.items():
            full.pop(name, None)
            if value is not None:
                full[name] = value
        self.process = subprocess.Popen([sys.executable, "-c", before + code], env=full, text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)

    def end(self):
        out, err = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, out.strip(), err.strip()

    def logged(self):
        return self.log.read_text().splitlines() if self.log.exists() else []


def says(folder, code, script="", **env):
    """What the lines print; they must end well."""
    rc, out, err = Child(folder, code, script, **env).end()
    assert rc == 0, err
    return out


def equal(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


def has(text, *parts):
    for part in parts:
        assert part in text, f"{part!r} is not in {text!r}"


@test
def structs_are_the_header_s(folder):
    out = says(folder, """
import ctypes
from dynpipe import _abi
f = _abi.library().scripted_fields
f.restype = ctypes.c_char_p
for line in f().decode().splitlines():
    struct, field, at, size = line.split()
    s = {"run": _abi.RunStruct, "step": _abi.StepStruct, "plan": _abi.PlanStruct, "load": _abi.LoadStruct, "change": _abi.Change}[struct]
    here = (0, ctypes.sizeof(s)) if field == "-" else (getattr(s, field).offset, getattr(s, field).size)
    if here != (int(at), int(size)): print(line, here)
    if field == "-": print(struct, len(s._fields_), sum(l.startswith(struct + " ") for l in f().decode().splitlines()) - 1)
""")
    equal(out, "run 22 22\nstep 10 10\nplan 10 10\nload 7 7\nchange 4 4")


@test
def enums_are_the_header_s(folder):
    header = (Path(os.environ["DP_SRCDIR"]) / "lib/dynpipe.h").read_text()
    names = {}
    for line in header.splitlines():
        for part in line.split("/*")[0].split("{")[-1].split(","):
            name, _, value = part.replace("}", "").replace(";", "").partition("=")
            if name.strip().startswith("DYNPIPE_") and value.strip().lstrip("-").isdigit():
                names[name.strip()] = int(value)
    out = says(folder, """
for e, before in (("Answer", ""), ("State", ""), ("How", ""), ("Event", "EV_")):
    for x in getattr(dynpipe, e): print("DYNPIPE_" + before + x.name, int(x))
print("DYNPIPE_PRUNE", dynpipe.prune(1, 0.5).kind)
print("DYNPIPE_FREEZE", dynpipe.freeze(1, 2).kind)
""")
    for line in out.splitlines():
        name, value = line.split()
        equal((name, names.get(name)), (name, int(value)))


@test
def no_library(folder):
    for env in ({"DYNPIPE_LIBRARY": folder + "/none.so"}, {"DYNPIPE_LIBRARY": None}):
        rc, out, err = Child(folder, "from dynpipe import _abi; _abi.SONAME = 'libdynpipe-none.so.1'\njoin()", **env).end()
        equal((rc, out), (1, ""))
        has(err.splitlines()[-1], "LibraryError: libdynpipe is not found", "none.so", "DYNPIPE_LIBRARY", "libdynpipe1")


@test
def another_library(folder):
    name = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libc.so" in line or "/libc-" in line)
    has(Child(folder, "join()", DYNPIPE_LIBRARY=name).end()[2], "is no libdynpipe: it has no dynpipe_abi()")
    has(Child(folder, "join()", DYNPIPE_SCRIPT_ABI="2").end()[2], "has ABI 2; this module needs ABI 1")


@test
def library_beside_the_package(folder):
    package = Path(folder) / "prefix/lib/python3/dist-packages"
    shutil.copytree(os.environ["DP_SRCDIR"] + "/lib/python/dynpipe", package / "dynpipe")
    shutil.copy(SCRIPTED, Path(folder) / "prefix/lib/libdynpipe-beside.so.1")
    equal(says(folder, "from dynpipe import _abi; _abi.SONAME = 'libdynpipe-beside.so.1'\nprint(dynpipe.version())",
               PYTHONPATH=str(package), DYNPIPE_LIBRARY=None), "0.0.0-script")


@test
def join_says_everything(folder):
    child = Child(folder, """
join(step=2, schedule="1f1b", can_move=False, equal_cost=True, boundary_bytes=2**40, mem_limit_bytes=5, leave_s=6, doubt_s=7, device="GPU",
     trainer="ours", checkpoint_dir="/c", socket="/s", changes=[dynpipe.prune(3, 0.5), dynpipe.freeze(4, 2)]).leave()
join(rank=None, world=None).leave(dynpipe.How.SAVED, "text")
""", SLURM_PROCID="2", SLURM_NTASKS="3")
    equal(child.end()[0], 0)
    size = says(folder, "from dynpipe import _abi; import ctypes; print(ctypes.sizeof(_abi.RunStruct))")
    equal(child.logged()[:6], [
        f"1 join size={size} traits=6 workers=3 layers=9 schedule=1 microbatches=4 tokens=32 step=2 steps=10 boundary={2**40} limit=5 "
        "changes=2 leave=6 doubt=7 device=GPU trainer=ours checkpoint=/c socket=/s",
        "1 change step=3 kind=1 value=0.5", "1 change step=4 kind=2 value=2", "1 leave how=0 text=-",
        f"2 join size={size} traits=3 workers=3 layers=9 schedule=0 microbatches=4 tokens=32 step=0 steps=10 boundary=0 limit=0 changes=0 "
        "leave=0 doubt=0 device=cpu trainer=- checkpoint=- socket=-", "2 leave how=3 text=text"])


@test
def wrong_arguments(folder):
    for code, want in (("join(cut=[0, 9])", "cut has 2 numbers and there are 3 workers"), ("join(world=0, cut=[0])", "may be 512"),
                       ("join(cut=[0, 3, -6, 9])", "cut is -6"), ("join(rank=None)", "rank is not given, and SLURM_PROCID"),
                       ("join(schedule='x')", "schedule is 'x'"), ("join(microbatches=2**32)", "microbatches is 4294967296"),
                       ("join(rank=3)", "rank is 3 of 3 workers"), ("join(device='a\\0b')", "zero byte"),
                       ("join().report(1, wall_ns=-1, loads=[])", "wall_ns is -1"),
                       ("join().report(1, wall_ns=1, loads=[dynpipe.Load(nnz=2**64)])", "nnz of load 0 is"),
                       ("join().report(7, wall_ns=1, loads=[])", "step 7 with 0 layers: it is step 1 with 3"),
                       ("join().expect(5, 8, [dynpipe.Load()] * 2)", "layers 8 to 10 of 9"),
                       ("join().event(9, 1)", "an event of kind 9 was not taken"),
                       ("join().decide(1, b'short')", "digest has 5 bytes"), ("dynpipe.owner_of([0, 3], 3)", "layer 3 is none")):
        rc, _, err = Child(folder, code).end()
        equal(rc, 1)
        has(err.splitlines()[-1], "ValueError: ", want)


@test
def refused(folder):
    has(Child(folder, "join()", "refuse rank 1 is fenced\n").end()[2], "dynpipe.Refused: rank 1 is fenced")


@test
def hand_over(folder):
    child = Child(folder, """
run = join()
loads = [dynpipe.Load(fwd_ns=1, bwd_input_ns=2, state_bytes=3, act_bytes=4, params=5, nnz=6)] * 3
print(run.leads, run.pending(), run.report(1, wall_ns=9, loads=loads), run.report(2, wall_ns=9, loads=loads, loss=0.5), run.prepare(5, 0.2))
plan = run.prepare(1)
print(plan.migration, plan.cut, plan.gone, plan.moves())
print(run.decide(1, None, "no room"), run.layout(), run.state.name)
print(run.prepare(2).moves(), run.decide(2, b"\\7" * 32), run.layout(), [run.state.name for _ in range(3)], run.leaving)
run.done(2, 10, 5)
print(run.prepare(3).moves(), run.decide(3, bytes(32)), run.leaving)
run.wait_leave()
try: run.poll()
except dynpipe.Error as e: print(e)
run.leave()
""", "move 2 commit 0 2 6 9\nmove 2 commit 0 3 5 9\nmove 2 commit 0 5 5 9\nkeep 2\n")
    rc, out, err = child.end()
    equal((rc, err), (0, "a line of the library"))
    equal(out.splitlines(), [
        "False 0 False True None", "1 (0, 2, 6, 9) (False, False, False) [(2, 0, 1)]", "False [0, 3, 6, 9] IDLE",
        "[(5, 1, 2)] True [0, 3, 5, 9] ['KEEPING', 'KEEPING', 'IDLE'] False", "[(3, 1, 0), (4, 1, 0)] True True",
        "this worker has left the run"])
    log = child.logged()
    for line in ("1 report step=1 layer=3 fwd=1 bwd=1 state=3 act=4 params=5 nnz=6", "1 decide 1 yes=0 digest=00 why=no room",
                 "1 decide 2 yes=1 digest=07 why=-", "1 done 2 pause=1 transfer=1", "1 leave how=1 text=-"):
        assert line in log, f"{line} is not in {log}"


@test
def ended(folder):
    code = "run = join(step=2)\nwith run: run.prepare(1); run.decide(1, bytes(32))"
    child = Child(folder, code, "move 2 end 0 2 6 9\n")
    has(child.end()[2], "dynpipe.Ended: the script ends it")
    equal(child.logged()[-1], "1 leave how=2 text=Ended: the script ends it")


@test
def known_later(folder):
    code = "run = join(step=2)\nrun.prepare(1)\ntry: run.decide(1, bytes(32), timeout=0.3)\nexcept TimeoutError as e: print(e)"
    child = Child(folder, code, "move 2 commit 0 2 6 9\nhang decide\n")
    equal(child.end()[1], "what was decided of hand-over 1 was not known within 0.3 s")
    slices = [int(line.split()[2]) for line in child.logged() if " waits " in line]
    assert slices and max(slices) <= 100, f"calls of {slices} ms: a signal waits for the end of one"


@test
def proposal_and_small_things(folder):
    child = Child(folder, """
run = join(rank=0)
print(run.proposal)
loads = [dynpipe.Load()] * 3
for k in (1, 2): run.report(k, wall_ns=1, loads=loads)
p = run.proposal
print(p.cut, p.gone, p.now_ns, p.then_ns)
print(run.take_save(), run.take_save(), run.time_left(), run.connected, run.fd, repr(run.why))
run.expect(5, 1, [dynpipe.Load(fwd_ns=3)]); run.expect(5, 0, []); run.forget(); run.wait(0.01)
run.event(dynpipe.Event.FROZEN, 4, 2.0); run.event(dynpipe.Event.SAVED, 4, text="/x")
print(math.isnan(join().time_left()))
""", "propose 2 0 4 4 9\nsave 2 2\n")
    rc, out, err = child.end()
    equal((rc, out.splitlines()), (0, ["None", "(0, 4, 4, 9) (False, True, False) 2000000.0 1000000.0", "2 0 inf True -1 ''", "True"]))
    log = child.logged()
    for line in ("0 expect step=5 first=1 n=1 fwd=3", "0 expect step=5 first=0 n=0 fwd=0", "0 forget", "0 wait",
                 "0 event kind=7 step=4 value=2 text=-", "0 event kind=1 step=4 value=0 text=/x"):
        assert line in log, f"{line} is not in {log}"


@test
def how_a_with_ends(folder):
    for code, want in (("pass", "how=0 text=-"), ("sys.exit(0)", "how=0 text=-"), ("sys.exit()", "how=0 text=-"),
                       ("sys.exit(3)", "how=2 text=SystemExit: 3"), ("raise OSError('two\\nlines')", "how=2 text=OSError: two lines"),
                       ("run.leave(dynpipe.How.SAVED)", "how=3 text=-")):
        child = Child(folder, "with join() as run: " + code)
        child.end()
        leaves = [line for line in child.logged() if " leave " in line]
        equal(leaves, ["1 leave " + want])
        child.log.unlink()


@test
def lines_of_the_library(folder):
    equal(says(folder, "dynpipe.on_log(lambda level, line: print(level, line)); join()"), "30 a line of the library")
    rc, out, err = Child(folder, "dynpipe.on_log(None); join()").end()
    equal((rc, out), (0, ""))


@test
def interrupted(folder):
    """Ctrl-C ends a call that would take much longer than the test. It is sent when the library is in that call."""
    for call, code in (("join", "join(timeout=3600)"), ("prepare", "with join() as run: run.prepare(1, timeout=3600)"),
                       ("decide", "with join(step=2) as run: run.prepare; run.decide(1, bytes(32))"),
                       ("wait", "with join(step=2, rank=1) as run: run.decide(1, bytes(32)); run.wait_leave()")):
        script = "move 2 commit 0 3 3 9\nkeep 1000000\n" + f"hang {call}\n"
        child = Child(folder, "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + code, script)
        end = time.monotonic() + DEADLINE_S
        while not any(f"1 {call}" in line for line in child.logged()):
            assert time.monotonic() < end and child.process.poll() is None, f"{call} was not called: {child.process.poll()}"
            time.sleep(0.01)
        child.process.send_signal(signal.SIGINT)
        rc, _, err = child.end()
        has(err, "KeyboardInterrupt")
        assert rc != 0
        if call != "join":
            equal(child.logged()[-1], "1 leave how=2 text=KeyboardInterrupt")
        child.log.unlink()


@test
def no_torch(folder):
    rc, _, err = Child(folder, "sys.modules['torch'] = None\nimport dynpipe.torch").end()
    has(err.splitlines()[-1], "ImportError: dynpipe.torch needs PyTorch (Debian: python3-torch)")


failed = 0
for k, f in enumerate(TESTS):
    with tempfile.TemporaryDirectory() as folder_of_test:
        os.chmod(folder_of_test, 0o700)
        try:
            f(folder_of_test)
            print(f"ok {k + 1} - {f.__name__}", flush=True)
        except Exception:
            failed += 1
            print(f"not ok {k + 1} - {f.__name__}", flush=True)
            print("".join("# " + line + "\n" for line in traceback.format_exc().splitlines()), end="", flush=True)
print(f"1..{len(TESTS)}")
sys.exit(failed > 0)
