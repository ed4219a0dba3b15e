/* SPDX-License-Identifier: BSD-3-Clause */
/* See dynpipe.h: the handle, from joining to leaving. What is said of steps is in dynpipe_report.c, hand-overs are in
 * dynpipe_handover.c, and what a member may say is in member.c, for the project's own worker, too.
 *
 * A call enters the handle before it looks at anything else. Two threads that do so at once are a fault of the trainer, which a
 * lock would only hide: the second one does nothing. */
#include <config.h>

#include "lib/dynpipe_internal.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"

#define REPORT_MS 500 /* until a daemon says how often it wants them */

uint32_t dynpipe_abi(void)
{
    return DYNPIPE_ABI;
}

const char *dynpipe_version(void)
{
    return PACKAGE_VERSION;
}

/* ---- lines for people ---- */

static struct {
    atomic_flag is_held; /* for as long as two pointers are copied: both are of one call */
    void (*tell)(void *arg, int level, const char *line);
    void *arg;
} listener = {.is_held = ATOMIC_FLAG_INIT};

static void hold_listener(void)
{
    while (atomic_flag_test_and_set(&listener.is_held))
        ;
}

static void tell_listener(enum dp_log_level level, const char *line)
{
    void (*tell)(void *arg, int level, const char *line);
    void *arg;

    hold_listener();
    tell = listener.tell;
    arg = listener.arg;
    atomic_flag_clear(&listener.is_held);
    if (tell)
        tell(arg, (int)level, line);
}

void dynpipe_on_log(void (*tell)(void *arg, int level, const char *line), void *arg)
{
    hold_listener();
    listener.tell = tell;
    listener.arg = arg;
    atomic_flag_clear(&listener.is_held);
}

/* ---- a call and its handle ---- */

static enum dp_entry enter(struct dynpipe *d)
{
    if (!d || d->pid != getpid())
        return DP_STRANGER;
    if (atomic_exchange(&d->is_inside, true))
        return DP_BUSY;
    d->saved_errno = errno;
    return DP_ENTERED;
}

enum dp_entry dp_handle_enter(struct dynpipe *d)
{
    enum dp_entry e = enter(d);

    if (e == DP_ENTERED && !d->must_end)
        d->why[0] = '\0';
    return e;
}

struct dynpipe *dp_handle_look(const struct dynpipe *d)
{
    struct dynpipe *own = (struct dynpipe *)(uintptr_t)d; /* made by dynpipe_join(), which gave out no const one */

    return enter(own) == DP_ENTERED ? own : NULL;
}

void dp_handle_leave(struct dynpipe *d)
{
    errno = d->saved_errno;
    atomic_store(&d->is_inside, false);
}

int dp_handle_why(struct dynpipe *d, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(d->why, sizeof d->why, fmt, ap);
    va_end(ap);
    return -1;
}

/* ---- joining ---- */

static void free_handle(struct dynpipe *d)
{
    dp_window_destroy(d->window);
    free(d->load);
    free(d);
}

static int start(struct dynpipe *d, const struct dynpipe_run *run, const struct dp_msg_hello *hello, uint32_t timeout_ms,
                 struct dp_err *err)
{
    struct dp_member_times times;

    dp_member_times_default(&times);
    if (run->doubt_s)
        times.doubt_ns = run->doubt_s * DP_SECOND_NS;
    if (run->leave_s)
        times.leave_ns = run->leave_s * DP_SECOND_NS;
    d->pid = getpid();
    d->traits = run->traits;
    d->rank = run->rank;
    d->microbatches = run->microbatches;
    d->step = run->step;
    d->steps_total = run->steps_total;
    d->loss = NAN;
    d->load = calloc(run->n_layers, sizeof *d->load);
    if (!d->load)
        return dp_err_set(err, DP_ENOMEM, "out of memory");
    d->window = dp_window_create(run->rank, REPORT_MS, err);
    if (!d->window)
        return -1;
    d->control = dp_control_create(run->socket, hello, timeout_ms, err);
    if (!d->control)
        return -1;
    dp_member_init(&d->member, d->control, run->rank, &d->layout, &times);
    if (run->socket && !dp_control_is_connected(d->control))
        dp_warn("job=%u step=%u rank=%u: no daemon: %s; training goes on without it", hello->job_id, hello->step_id, run->rank,
                dp_control_trouble(d->control));
    return 0;
}

static int errno_of(enum dp_errcode code)
{
    return code == DP_EAUTH ? EACCES : code == DP_ENOMEM ? ENOMEM : EINVAL;
}

struct dynpipe *dynpipe_join(const struct dynpipe_run *run, uint32_t timeout_ms, char *why, uint64_t cap)
{
    struct dynpipe *d = calloc(1, sizeof *d);
    struct dp_msg_hello *hello = calloc(1, sizeof *hello);
    struct dp_err err = {0};
    struct dynpipe_run own;
    int saved = errno;

    dp_log_to_function(tell_listener);
    if (!d || !hello)
        dp_err_set(&err, DP_ENOMEM, "out of memory");
    else if (dp_run_read(run, &own, hello, &d->layout, &err) == 0)
        start(d, &own, hello, timeout_ms, &err);
    free(hello);
    if (why && cap)
        snprintf(why, (size_t)cap, "%s", err.text);
    if (err.code == DP_OK) {
        errno = saved;
        return d;
    }
    if (d)
        free_handle(d);
    errno = errno_of(err.code);
    return NULL;
}

void dynpipe_leave(struct dynpipe *d, int how, const char *text)
{
    struct dp_msg_goodbye m = {.how = DP_BYE_FAILED};
    int saved = errno;

    switch (enter(d)) {
    case DP_STRANGER:
        if (d) {
            dp_control_abandon(d->control);
            free_handle(d);
        }
        errno = saved;
        return;
    case DP_BUSY:
        return;
    case DP_ENTERED:
        break;
    }
    m.rank = d->rank;
    m.step = d->step;
    m.loss = d->loss;
    if (how >= DYNPIPE_COMPLETED && how <= DYNPIPE_SAVED)
        m.how = (uint8_t)how;
    snprintf(m.text, sizeof m.text, "%s", text ? text : "");
    dp_control_goodbye(d->control, &m);
    dp_control_destroy(d->control);
    free_handle(d);
    errno = saved;
}

/* ---- the line to the daemon ---- */

int dynpipe_is_connected(struct dynpipe *d)
{
    int is_connected;

    if (dp_handle_enter(d) != DP_ENTERED)
        return 0;
    is_connected = dp_control_is_connected(d->control);
    if (!is_connected && !d->must_end)
        dp_handle_why(d, "%s", dp_control_trouble(d->control));
    dp_handle_leave(d);
    return is_connected;
}

int dynpipe_fd(const struct dynpipe *d)
{
    struct dynpipe *own = dp_handle_look(d);
    int fd;

    if (!own)
        return -1;
    fd = dp_control_is_connected(own->control) ? dp_control_fd(own->control) : -1;
    dp_handle_leave(own);
    return fd;
}

void dynpipe_poll(struct dynpipe *d)
{
    if (dp_handle_enter(d) != DP_ENTERED)
        return;
    dp_control_poll(d->control);
    dp_handle_leave(d);
}

void dynpipe_wait(struct dynpipe *d, uint32_t timeout_ms)
{
    uint32_t ms = timeout_ms < INT32_MAX ? timeout_ms : INT32_MAX;
    int saved = errno;

    switch (dp_handle_enter(d)) {
    case DP_STRANGER:
        poll(NULL, 0, (int)ms);
        errno = saved;
        return;
    case DP_BUSY:
        return;
    case DP_ENTERED:
        dp_control_wait(d->control, ms);
        dp_handle_leave(d);
    }
}

const char *dynpipe_why(const struct dynpipe *d)
{
    struct dynpipe *own;

    if (!d || d->pid != getpid())
        return d ? "this process is a child of the one that joined" : "";
    own = dp_handle_look(d);
    if (!own)
        return "another thread is inside of this handle";
    dp_handle_leave(own);
    return own->why;
}

int dynpipe_take_save(struct dynpipe *d)
{
    bool save, stop;

    if (dp_handle_enter(d) != DP_ENTERED)
        return 0;
    dp_control_poll(d->control);
    save = dp_control_take_save(d->control);
    stop = dp_control_take_stop(d->control);
    dp_handle_leave(d);
    return stop ? 2 : save;
}

double dynpipe_time_left(const struct dynpipe *d)
{
    struct dynpipe *own = dp_handle_look(d);
    double left = NAN;

    if (!own)
        return NAN;
    if (dp_control_has_limit(own->control)) {
        uint64_t end = dp_control_end_ns(own->control), now = dp_now_ns();

        left = !end ? INFINITY : end > now ? (double)(end - now) / 1e9 : 0.0;
    }
    dp_handle_leave(own);
    return left;
}
