/* SPDX-License-Identifier: BSD-3-Clause */
/* See terminal.h. Signals are blocked outside of ppoll(), so none gets lost between looking at a flag
 * and going to sleep; a handler only sets a flag. */
#include "config.h"

#include "cli/show/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "common/clock.h"

static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};
enum { N_WATCHED = sizeof watched / sizeof *watched };

static struct termios saved_mode;
static struct sigaction saved_action[N_WATCHED];
static sigset_t saved_mask;
static bool is_open, has_keys;
static volatile sig_atomic_t end_signal, was_resized, must_stop;

static void on_signal(int number)
{
    if (number == SIGWINCH || number == SIGCONT)
        was_resized = 1;
    else if (number == SIGTSTP)
        must_stop = 1;
    else
        end_signal = number;
}

static void write_all(const char *bytes, size_t n)
{
    while (n) {
        ssize_t k = write(STDOUT_FILENO, bytes, n);

        if (k < 0 && errno == EAGAIN) {
            struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};

            poll(&p, 1, 1000);
            continue;
        }
        if (k < 0 && errno != EINTR)
            return; /* the terminal is gone; SIGHUP ends the program */
        if (k > 0) {
            bytes += k;
            n -= (size_t)k;
        }
    }
}

static void write_text(const char *text)
{
    write_all(text, strlen(text));
}

/* Alternate screen on, cursor off, no wrapping at the right edge. */
static void enter(void)
{
    struct termios raw = saved_mode;

    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    if (has_keys)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    write_text("\033[?1049h\033[?25l\033[?7l\033[2J");
}

static void leave(void)
{
    write_text("\033[?7h\033[?25h\033[?1049l");
    if (has_keys)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &saved_mode);
}

bool dp_terminal_is_usable(void)
{
    const char *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

int dp_terminal_open(struct dp_err *err)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t block;

    has_keys = isatty(STDIN_FILENO);
    if (has_keys && tcgetattr(STDIN_FILENO, &saved_mode) < 0)
        return dp_err_set(err, DP_EIO, "terminal: %s", strerror(errno));
    sigemptyset(&block);
    for (size_t i = 0; i < N_WATCHED; i++)
        sigaddset(&block, watched[i]);
    sigprocmask(SIG_BLOCK, &block, &saved_mask);
    for (size_t i = 0; i < N_WATCHED; i++)
        sigaction(watched[i], &action, &saved_action[i]);
    is_open = true;
    atexit(dp_terminal_close);
    enter();
    return 0;
}

void dp_terminal_close(void)
{
    if (!is_open)
        return;
    is_open = false;
    leave();
    for (size_t i = 0; i < N_WATCHED; i++)
        sigaction(watched[i], &saved_action[i], NULL);
    sigprocmask(SIG_SETMASK, &saved_mask, NULL);
}

void dp_terminal_size(size_t *rows, size_t *columns)
{
    struct winsize size = {0};

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_row == 0 || size.ws_col == 0) {
        size.ws_row = 24;
        size.ws_col = 80;
    }
    *rows = size.ws_row;
    *columns = size.ws_col;
}

int dp_terminal_signal(void)
{
    return end_signal;
}

/* ^Z: the shell gets its terminal back, and we take it again when we are continued. */
static void stop(void)
{
    must_stop = 0;
    leave();
    kill(getpid(), SIGSTOP);
    enter();
    was_resized = 1;
}

static enum dp_key decode_key(const char *bytes, ssize_t n)
{
    if (n >= 3 && bytes[0] == '\033' && (bytes[1] == '[' || bytes[1] == 'O')) {
        switch (bytes[2]) {
        case 'A': return DP_KEY_UP;
        case 'B': return DP_KEY_DOWN;
        case '5': return DP_KEY_PAGE_UP;
        case '6': return DP_KEY_PAGE_DOWN;
        default: return DP_KEY_NONE;
        }
    }
    switch (bytes[0]) {
    case 'q': case 'Q': case 3: case 4: return DP_KEY_QUIT;
    case 'k': return DP_KEY_UP;
    case 'j': return DP_KEY_DOWN;
    case 12: return DP_KEY_RESIZE; /* ^L: draw again */
    default: return DP_KEY_NONE;
    }
}

/* returns: true when there is something to do. */
static bool look_at_flags(enum dp_key *key)
{
    if (must_stop)
        stop();
    *key = end_signal ? DP_KEY_QUIT : was_resized ? DP_KEY_RESIZE : DP_KEY_NONE;
    was_resized = 0;
    return *key != DP_KEY_NONE;
}

enum dp_key dp_terminal_wait(uint64_t until_ns)
{
    enum dp_key key;

    while (!look_at_flags(&key)) {
        struct pollfd p = {.fd = has_keys ? STDIN_FILENO : -1, .events = POLLIN};
        uint64_t now = dp_now_ns(), left = until_ns > now ? until_ns - now : 0;
        struct timespec t = {.tv_sec = (time_t)(left / 1000000000u), .tv_nsec = (long)(left % 1000000000u)};
        char bytes[32];
        ssize_t n;
        int ready = ppoll(&p, 1, &t, &saved_mask);

        if (ready == 0 && left == 0)
            return DP_KEY_NONE;
        if (ready <= 0)
            continue;
        n = read(STDIN_FILENO, bytes, sizeof bytes);
        if (n <= 0) {
            has_keys = false; /* the other end hung up; go on without keys */
            continue;
        }
        key = decode_key(bytes, n);
        if (key != DP_KEY_NONE)
            return key;
    }
    return key;
}

void dp_terminal_show(const char *frame, size_t bytes)
{
    write_text("\033[H");
    write_all(frame, bytes);
    write_text("\033[J");
}
