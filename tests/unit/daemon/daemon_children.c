/* SPDX-License-Identifier: BSD-3-Clause */
/* What the daemons of daemon_world.h have instead of children and rights: the functions of helper.c, common/child.c,
 * rights.c and privileged.c stand here under their own names, so the linker takes none of those.
 *
 * privileged.c keeps what a helper process may know in static memory, because it is a process: that is why it is left
 * out. Everything else of a daemon lives in struct dp_daemon. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/child.h"
#include "daemon/child/node_state.h"
#include "daemon/query/node_look.h"
#include "daemon/release/as_owner.h"
#include "daemon/release/ask_slices.h"
#include "daemon/release/device_memory.h"
#include "daemon/release/privileged.h"
#include "daemon/release/rights.h"
#include "tests/unit/daemon/daemon_world.h"

#define BUFFER_FD (-7) /* of a child that writes: its answer */

/* ---- children ---- */

static struct {
    uint8_t *data;
    size_t used, max;
} buffer;

void dp_child_become(int keep_fd, double deadline_s)
{
    (void)keep_fd;
    (void)deadline_s;
}

void dp_child_limit(uint64_t address_bytes, double cpu_s)
{
    (void)address_bytes;
    (void)cpu_s;
}

void dp_child_write(int fd, const uint8_t *result, size_t bytes)
{
    if (fd != BUFFER_FD || buffer.used + bytes > buffer.max)
        return;
    buffer.data = realloc(buffer.data, buffer.used + bytes + 1);
    if (bytes)
        memcpy(buffer.data + buffer.used, result, bytes);
    buffer.used += bytes;
}

/* ms 0: it answers at the next turn, and always. */
static struct dp_helper *start(dp_helper_done_fn done, void *arg, uint32_t ms, struct dp_err *err)
{
    struct dp_helper *h;

    if (!dw.current || dw.current->is_dead || (ms && dw_chance(dw.child_percent))) {
        dp_err_set(err, DP_ENOMEM, "fork: no");
        return NULL;
    }
    h = calloc(1, sizeof *h);
    if (!h)
        abort();
    h->node = dw.current;
    h->done = done;
    h->arg = arg;
    h->due_ns = ms ? dw_soon(ms) : dw.now_ns;
    h->why = "";
    h->next = dw.helpers;
    dw.helpers = h;
    return h;
}

/* It asks Slurm, or waits. */
static bool takes_time(dp_helper_work_fn work)
{
    return work == dp_job_read_work || work == dp_empty_slot_work || work == dp_shrink_work || work == dp_requeue_work ||
           work == dp_memory_work || work == dp_cards_work || work == dp_ask_slices_work || work == dp_mark_slices_work;
}

static void keep(struct dp_helper *h, const uint8_t *result, size_t n)
{
    h->result = malloc(n + 1);
    if (!h->result)
        abort();
    memcpy(h->result, result, n);
    h->n_result = n;
}

static void keep_result(struct dp_helper *h, const uint8_t *result, size_t n)
{
    if (dw_chance(dw.child_percent))
        h->why = "the helper process died";
    else
        keep(h, result, n);
}

struct dp_helper *dp_helper_start(struct event_base *base, dp_helper_work_fn work, const void *request, size_t bytes,
                                  double deadline_s, dp_helper_done_fn done, void *arg, struct dp_err *err)
{
    static uint8_t result[DP_HELPER_RESULT_MAX];
    bool is_drain_look = work == dp_node_state_work; /* every node, again and again: nothing is drawn, so seeds stay what they were */
    struct dp_helper *h = start(done, arg, is_drain_look ? 0 : work == dp_job_read_work ? 200 : 60, err);

    (void)base;
    (void)deadline_s;
    if (!h)
        return NULL;
    if (is_drain_look) {
        keep(h, result, work(request, bytes, result));
    } else if (takes_time(work)) {
        h->work = work;
        h->request = malloc(bytes + 1);
        if (!h->request)
            abort();
        memcpy(h->request, request, bytes);
        h->bytes = bytes;
    } else if (work == dp_node_look) { /* munge, Slurm and a plug-in of it */
        keep_result(h, (const uint8_t *)"[]", sizeof "[]");
    } else {
        keep_result(h, result, work(request, bytes, result)); /* it sees the daemon as it is now */
    }
    return h;
}

struct dp_helper *dp_helper_start_writer(struct event_base *base, dp_helper_writer_fn work, const void *request,
                                         size_t max_bytes, double deadline_s, dp_helper_done_fn done, void *arg,
                                         struct dp_err *err)
{
    struct dp_helper *h = start(done, arg, 60, err);

    (void)base;
    (void)deadline_s;
    if (!h)
        return NULL;
    buffer.data = NULL;
    buffer.used = 0;
    buffer.max = max_bytes;
    work(request, BUFFER_FD);
    h->result = buffer.data;
    h->n_result = buffer.used;
    if (!buffer.used)
        h->why = "the helper process died";
    return h;
}

struct dp_helper *dp_helper_watch(struct event_base *base, int pipe_fd, double deadline_s, dp_helper_done_fn done,
                                  void *arg, struct dp_err *err)
{
    (void)base;
    (void)deadline_s;
    (void)done;
    (void)arg;
    close(pipe_fd);
    dp_err_set(err, DP_ENOTSUP, "no pipes here");
    return NULL;
}

static void unlink_helper(const struct dp_helper *h)
{
    struct dp_helper **at = &dw.helpers;

    while (*at && *at != h)
        at = &(*at)->next;
    if (*at)
        *at = h->next;
}

static void helper_free(struct dp_helper *h)
{
    unlink_helper(h);
    free(h->request);
    free(h->result);
    free(h);
}

void dp_helper_cancel(struct dp_helper *h)
{
    if (h && h->is_running)
        h->is_cancelled = true; /* its stack is below ours */
    else if (h)
        helper_free(h);
}

void dp_helper_leave(struct dp_helper *h)
{
    if (h && h->work)
        h->is_left = true;
    else
        dp_helper_cancel(h);
}

static struct dp_helper *find_due(void)
{
    struct dp_helper *found = NULL;

    for (struct dp_helper *h = dw.helpers; h; h = h->next)
        if (!h->is_running && dw.now_ns >= h->due_ns && !(h->work == dp_empty_slot_work && dw.n_fences) &&
            (!found || h->due_ns < found->due_ns))
            found = h;
    return found;
}

static void work_now(struct dp_helper *h)
{
    static uint8_t one[DP_HELPER_RESULT_MAX], fenced[DP_HELPER_RESULT_MAX];
    uint8_t *result = h->work == dp_empty_slot_work ? fenced : one;
    uint32_t life = dw.fenced_life;
    size_t n;

    if (h->work == dp_empty_slot_work)
        dw.fenced_life = ((const struct dp_empty_request *)h->request)->restart_count;
    dw.n_fences += h->work == dp_empty_slot_work;
    n = h->work(h->request, h->bytes, result);
    dw.n_fences -= h->work == dp_empty_slot_work;
    dw.fenced_life = life;
    if (h->work == dp_empty_slot_work)
        dw.n_fenced += n == sizeof(struct dp_empty_result) && ((struct dp_empty_result *)(void *)result)->gone;
    if (!h->is_cancelled)
        keep_result(h, result, n);
}

void dw_children(void)
{
    struct dp_helper *h;

    while ((h = find_due())) {
        struct dw_node *before = dw.current;

        h->is_running = true;
        dw.current = h->node;
        if (h->work)
            work_now(h);
        dw.current = h->node;
        if (!h->is_cancelled && !h->is_left)
            h->done(h->arg, h->result, h->n_result, h->why);
        dw.current = before;
        helper_free(h);
    }
}

/* ---- rights ---- */

const struct dp_priv_scope *dp_priv_current_scope(void)
{
    static struct dp_priv_scope scope;

    memset(&scope, 0, sizeof scope);
    memcpy(scope.node, dw.current->name, sizeof scope.node);
    memcpy(scope.socket, dw.current->config->socket, sizeof scope.socket);
    memcpy(scope.devices, dw.current->config->device_files, sizeof scope.devices);
    memcpy(scope.nvml, dw.nvml, sizeof scope.nvml);
    scope.is_shared_host = scope.is_split = true;
    scope.listener = DW_DAEMON_UID;
    return &scope;
}

struct dp_helper *dp_priv_start(struct dp_priv *p, struct event_base *base, enum dp_priv_op op, const void *request,
                                size_t bytes, double deadline_s, dp_helper_done_fn done, void *arg, struct dp_err *err)
{
    static const dp_helper_work_fn work[] = {NULL, dp_empty_slot_work, dp_shrink_work, dp_requeue_work, dp_memory_work, dp_cards_work,
                                               dp_ask_slices_work, dp_mark_slices_work};

    (void)p;
    return dp_helper_start(base, work[op], request, bytes, deadline_s, done, arg, err);
}

bool dp_rights_can_change(void)
{
    return true;
}

int dp_rights_become(const struct dp_rights *who, struct dp_err *err)
{
    return who->uid == DW_OWNER || who->uid == geteuid() ? 0 : dp_err_set(err, DP_EAUTH, "nobody else's rights are needed");
}

int dp_rights_watch_as(const struct dp_rights *who, struct dp_err *err)
{
    return dp_rights_become(who, err);
}

void dp_rights_see_as_root(bool on)
{
    (void)on;
}
