# SPDX-License-Identifier: BSD-3-Clause
"""Runs `dynpipe watch` in a pseudo terminal and prints "pass name" or "fail name" lines.

The screen is what a small terminal emulator makes of the bytes: cursor to the top left, erase to the
end of line and of screen, colours, alternate screen. That is all that the command uses.
"""
import fcntl, os, pty, re, select, signal, struct, subprocess, sys, termios, time

dynpipe, recorded = sys.argv[1:3]
TOKEN = re.compile(rb"\033\[(\?)?([0-9;]*)([A-Za-z])|\r|\n|[^\033\r\n]+")


def report(good, name):
    print("pass" if good else "fail", name)


class Screen:
    def __init__(self, rows, columns):
        self.resize(rows, columns)
        self.alternate = self.hidden = self.was_alternate = False
        self.unknown = []
        self.overrun = False
        self.marks = self.pictures = 0

    def resize(self, rows, columns):
        self.rows, self.columns, self.y, self.x = rows, columns, 0, 0
        self.cell = [[" "] * columns for _ in range(rows)]

    def text(self):
        return "\n".join("".join(r).rstrip() for r in self.cell)

    def control(self, private, argument, letter):
        if private and argument in (b"1049", b"25", b"7"):
            on = letter == b"h"
            if argument == b"1049":
                self.alternate, self.was_alternate = on, self.was_alternate or on
            elif argument == b"25":
                self.hidden = not on
        elif letter == b"H":
            self.y = self.x = 0
        elif letter == b"K":
            self.cell[self.y][self.x:] = [" "] * (self.columns - self.x)
        elif letter == b"J":
            if argument != b"2":
                self.cell[self.y][self.x:] = [" "] * (self.columns - self.x)
            for y in range(0 if argument == b"2" else self.y + 1, self.rows):
                self.cell[y] = [" "] * self.columns
            self.pictures += argument != b"2"  # whatever was below is erased: the end of a picture
        elif letter != b"m":
            self.unknown.append((argument, letter))

    def feed(self, data):
        self.marks += data.count(b"\a")
        for m in TOKEN.finditer(data.replace(b"\a", b"")):
            if m.group(3):
                self.control(m.group(1), m.group(2), m.group(3))
            elif m.group(0) == b"\r":
                self.x = 0
            elif m.group(0) == b"\n":
                if self.y + 1 == self.rows:
                    self.overrun = self.overrun or self.alternate
                else:
                    self.y += 1
            else:
                for c in m.group(0).decode():
                    if self.x < self.columns:
                        self.cell[self.y][self.x] = c
                    self.x = min(self.x + 1, self.columns - 1)


class Watch:
    """One `dynpipe watch` on a terminal of its own."""

    def __init__(self, rows, columns, *options):
        self.screen = Screen(rows, columns)
        self.master, self.slave = pty.openpty()
        self.size(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        env = dict(os.environ, TERM="xterm", LC_ALL="C.UTF-8")
        self.process = subprocess.Popen([dynpipe, "watch", *options], stdin=self.slave, stdout=self.slave,
                                        stderr=self.slave, env=env, start_new_session=True)

    def size(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, rows, columns):
        self.size(rows, columns)
        self.screen.resize(rows, columns)
        os.killpg(self.process.pid, signal.SIGWINCH)

    def shows(self, text):
        """A whole picture with this in it, the next after those seen. (The rest of one on a screen that has
        another size by then would be a mess.)"""
        seen = self.screen.pictures
        return self.read_until(lambda: self.screen.pictures > seen and text in self.screen.text())

    def read_until(self, done, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if done():
                return True
            if select.select([self.master], [], [], 0.05)[0]:
                self.screen.feed(self.read_whole())
        return done()

    def read_whole(self):
        """Never stop in the middle of a character or an escape sequence."""
        data = os.read(self.master, 65536)
        while select.select([self.master], [], [], 0.01)[0]:
            data += os.read(self.master, 65536)
        return data

    def settle(self):
        """All that a process which has ended, or is stopped, has written: it lies before a mark of ours."""
        marks = self.screen.marks
        os.write(self.slave, b"\a")
        return self.read_until(lambda: self.screen.marks > marks)

    def restored(self):
        return (not self.screen.alternate and not self.screen.hidden and
                termios.tcgetattr(self.slave) == self.before)

    def ended(self):
        return self.process.poll() is not None

    def finish(self):
        if not self.ended():
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


w = Watch(30, 100, "--from", recorded, "--interval", "0.1")
report(w.read_until(lambda: "job 4711" in w.screen.text() and w.screen.alternate), "a picture on the alternate screen")
report("worker" in w.screen.text() and "load" in w.screen.text(), "it has the workers with their loads")
report(w.read_until(lambda: "devices held" in w.screen.text()), "it has the curves")
report(w.read_until(lambda: "decision at step" in w.screen.text()), "it has the last decisions")
report(w.read_until(w.ended), "it ends when the run does")
w.settle()
report(w.process.returncode == 0, "with exit code 0")
report(w.restored() and w.screen.was_alternate, "the terminal is as it was")
report(not w.screen.unknown and not w.screen.overrun, "only the sequences that the test knows; nothing scrolls")
w.finish()

w = Watch(24, 80, "--from", recorded, "--interval", "600")
report(w.shows("job 4711"), "24 x 80: a picture")
width = max(len(l) for l in w.screen.text().split("\n"))
report(width <= 80 and not w.screen.overrun, "it fits")
w.resize(12, 50)
report(w.shows("job 4711") and not w.screen.overrun, "12 x 50 after a resize")
w.resize(3, 20)
report(w.shows("DynPipe") and not w.screen.overrun, "3 x 20: still no mess")
os.write(w.master, b"q")
report(w.read_until(w.ended) and w.process.returncode == 0, "q quits with 0")
w.settle()
report(w.restored(), "the terminal is as it was")
w.finish()

for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    w = Watch(24, 80, "--from", recorded, "--interval", "600")
    w.shows("job 4711")
    os.kill(w.process.pid, number)
    report(w.read_until(w.ended) and w.process.returncode == -number, "%s ends it as it should" % number.name)
    w.settle()
    report(w.restored(), "the terminal is as it was after %s" % number.name)
    w.finish()

w = Watch(24, 80, "--from", recorded, "--interval", "600")
w.shows("job 4711")
os.kill(w.process.pid, signal.SIGTSTP)
stopped = lambda: open("/proc/%d/stat" % w.process.pid).read().rsplit(")", 1)[1].split()[0] == "T"
report(w.read_until(stopped), "^Z stops it")
w.settle()
report(w.restored(), "and gives the terminal back meanwhile")
os.kill(w.process.pid, signal.SIGCONT)
report(w.read_until(lambda: w.screen.alternate), "it comes back")
w.finish()
print("end")
