/* SPDX-License-Identifier: BSD-3-Clause */
/* A process that does not die: attached to it, this one is told by the kernel when it begins to exit, however that
 * came about, and keeps it there, with all its files open and its locks held; SIGKILL cannot end it a second time.
 * That is what a process looks like that hangs in the kernel. For tests.
 *
 *   hold_exit PID    prints "attached"; "held" when PID is on its way out; lets it go when stdin ends, and ends
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static int fail(const char *what)
{
    fprintf(stderr, "hold_exit: %s: %s\n", what, strerror(errno));
    return 1;
}

static void say(const char *word)
{
    puts(word);
    fflush(stdout);
}

/* The first thread is enough: it has the files of all. Signals and stops pass through. returns: it is held. */
static bool look(pid_t pid, bool *is_gone)
{
    bool is_held = false;
    int status;

    while (waitpid(pid, &status, __WALL | WNOHANG) > 0) {
        int event = status >> 16;

        if (!WIFSTOPPED(status))
            *is_gone = true;
        else if (event == PTRACE_EVENT_EXIT)
            is_held = true;
        else if (event == PTRACE_EVENT_STOP)
            ptrace(PTRACE_LISTEN, pid, 0, 0);
        else
            ptrace(PTRACE_CONT, pid, 0, event ? 0 : WSTOPSIG(status));
    }
    return is_held;
}

int main(int argc, char **argv)
{
    pid_t pid = argc == 2 ? (pid_t)strtol(argv[1], NULL, 10) : 0;
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    bool is_gone = false;

    if (pid <= 1) {
        fputs("usage: hold_exit PID\n", stderr);
        return 2;
    }
    if (ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACEEXIT) < 0)
        return fail("ptrace");
    say("attached");
    for (;;) {
        char byte;

        if (look(pid, &is_gone))
            say("held");
        if (is_gone || (poll(&p, 1, 10) > 0 && read(STDIN_FILENO, &byte, 1) <= 0))
            return 0; /* the kernel detaches */
    }
}
