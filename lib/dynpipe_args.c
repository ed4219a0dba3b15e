/* SPDX-License-Identifier: BSD-3-Clause */
/* What a caller of the shared object says, checked before anything uses it; and structs of callers who were compiled against another
 * release. */
#include "lib/dynpipe_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "common/run/change.h"
#include "common/schedule/list.h"
#include "lib/job_step.h"

#define STRUCT_MAX 4096 /* no release has one so large: it is no size but what lay in memory */
#define LONGEST_WAIT_S 86400 /* a day, as the environment may say */

/* What no compiler makes of a struct with pointers would end in the middle of one. */
static int check_size(uint32_t size, const char *name, struct dp_err *err)
{
    if (size > 0 && size <= STRUCT_MAX && size % sizeof(void *) == 0)
        return 0;
    return dp_err_set(err, DP_EINVAL, "%s: its size is %u; it has to be sizeof (struct dynpipe_%s)", name, size, name);
}

int dp_struct_read(void *out, size_t bytes, const void *in, const char *name, struct dp_err *err)
{
    uint32_t size;

    if (!in)
        return dp_err_set(err, DP_EINVAL, "%s is NULL", name);
    memcpy(&size, in, sizeof size);
    if (check_size(size, name, err) < 0)
        return -1;
    for (size_t i = bytes; i < size; i++)
        if (((const uint8_t *)in)[i])
            return dp_err_set(err, DP_EINVAL, "%s: the caller is of a later release, and uses a field that this one does not know", name);
    memset(out, 0, bytes);
    memcpy(out, in, size < bytes ? size : bytes);
    return 0;
}

int dp_struct_write(void *out, const void *in, size_t bytes, const char *name, struct dp_err *err)
{
    uint32_t size;

    if (!out)
        return dp_err_set(err, DP_EINVAL, "%s is NULL", name);
    memcpy(&size, out, sizeof size);
    if (check_size(size, name, err) < 0)
        return -1;
    memset(out, 0, size);
    memcpy(out, in, size < bytes ? size : bytes);
    memcpy(out, &size, sizeof size);
    return 0;
}

static int check_numbers(const struct dynpipe_run *r, struct dp_err *err)
{
    if (r->traits & ~(uint32_t)(DYNPIPE_CAN_MOVE | DYNPIPE_CAN_LEAVE | DYNPIPE_EQUAL_COST))
        return dp_err_set(err, DP_EINVAL, "traits: 0x%x has bits that mean nothing", r->traits);
    if (r->n_workers < 1 || r->n_workers > DYNPIPE_MAX_WORKERS)
        return dp_err_set(err, DP_EINVAL, "n_workers is %u; allowed: 1 to %d", r->n_workers, DYNPIPE_MAX_WORKERS);
    if (r->rank >= r->n_workers)
        return dp_err_set(err, DP_EINVAL, "rank is %u of %u workers, from 0", r->rank, r->n_workers);
    if (r->n_layers < 1 || r->n_layers > DYNPIPE_MAX_LAYERS)
        return dp_err_set(err, DP_EINVAL, "n_layers is %u; allowed: 1 to %d", r->n_layers, DYNPIPE_MAX_LAYERS);
    if (r->schedule > DYNPIPE_1F1B)
        return dp_err_set(err, DP_EINVAL, "schedule is %u; allowed: 0 (GPipe), 1 (1F1B)", r->schedule);
    if (!r->microbatches || !r->tokens_per_microbatch)
        return dp_err_set(err, DP_EINVAL, "a step has %u microbatches of %u tokens; allowed: 1 at least", r->microbatches,
                          r->tokens_per_microbatch);
    if (!r->steps_total || r->step > r->steps_total)
        return dp_err_set(err, DP_EINVAL, "%llu steps are completed of %llu", (unsigned long long)r->step,
                          (unsigned long long)r->steps_total);
    if (r->doubt_s > LONGEST_WAIT_S || r->leave_s > LONGEST_WAIT_S)
        return dp_err_set(err, DP_EINVAL, "doubt_s is %u and leave_s is %u; allowed: at most %u", r->doubt_s, r->leave_s,
                          LONGEST_WAIT_S);
    if (r->zero)
        return dp_err_set(err, DP_EINVAL, "field zero is %u", r->zero);
    return 0;
}

/* Copies text, which may be NULL; where cutting it would make it another thing, `whole` refuses that. */
static int take_text(char *out, size_t cap, const char *text, bool whole, const char *name, struct dp_err *err)
{
    snprintf(out, cap, "%s", text ? text : "");
    if (whole && text && strlen(text) >= cap)
        return dp_err_set(err, DP_EINVAL, "%s has %zu bytes; allowed: %zu", name, strlen(text), cap - 1);
    return 0;
}

static int take_changes(const struct dynpipe_run *r, struct dp_msg_hello *h, struct dp_err *err)
{
    if (r->n_changes > DP_CHANGES_MAX || (r->n_changes && !r->change))
        return dp_err_set(err, DP_EINVAL, "%u changes%s; allowed: at most %d", r->n_changes, r->change ? "" : ", but no list of them",
                          DP_CHANGES_MAX);
    for (uint32_t i = 0; i < r->n_changes; i++) {
        const struct dynpipe_change *c = &r->change[i];

        if (c->zero || c->kind > UINT8_MAX)
            return dp_err_set(err, DP_EINVAL, "change %u: kind is %u, field zero is %u", i, c->kind, c->zero);
        h->change[i] = (struct dp_change){.step = c->step, .value = c->value, .kind = (uint8_t)c->kind};
        if (c->kind != DP_CHANGE_PRUNE)
            continue;
        if (!h->prune_end) /* for a daemon of release 0.1.0, which knows a cubic between two steps */
            h->prune_begin = c->step;
        h->prune_end = c->step;
        h->final_sparsity = c->value;
    }
    h->n_changes = (uint8_t)r->n_changes;
    return dp_changes_check(h->change, r->n_changes, r->n_layers, err);
}

static int take_layout(const struct dynpipe_run *r, struct dp_msg_hello *h, struct dp_layout *l, struct dp_err *err)
{
    if (!r->cut)
        return dp_err_set(err, DP_EINVAL, "cut is NULL");
    *l = (struct dp_layout){.n_workers = r->n_workers, .n_layers = r->n_layers};
    memcpy(l->cut, r->cut, (r->n_workers + 1) * sizeof l->cut[0]);
    memcpy(h->cut, r->cut, (r->n_workers + 1) * sizeof h->cut[0]);
    return dp_layout_check(l, err);
}

int dp_run_read(const struct dynpipe_run *in, struct dynpipe_run *run, struct dp_msg_hello *h, struct dp_layout *layout,
                struct dp_err *err)
{
    if (dp_struct_read(run, sizeof *run, in, "run", err) < 0 || check_numbers(run, err) < 0)
        return -1;
    if (!run->socket)
        run->socket = getenv("DYNPIPE_SOCKET");
    if (run->socket && !run->socket[0])
        run->socket = NULL;
    if (run->socket && strlen(run->socket) >= sizeof((struct sockaddr_un *)0)->sun_path)
        return dp_err_set(err, DP_EINVAL, "socket has %zu bytes; allowed: %zu", strlen(run->socket),
                          sizeof((struct sockaddr_un *)0)->sun_path - 1);
    memset(h, 0, sizeof *h);
    dp_job_step(&h->job_id, &h->step_id, h->options);
    h->rank = run->rank;
    h->n_workers = run->n_workers;
    h->n_layers = run->n_layers;
    h->step = run->step;
    h->steps_total = run->steps_total;
    h->microbatches = run->microbatches;
    h->tokens_per_microbatch = run->tokens_per_microbatch;
    h->schedule = run->schedule == DYNPIPE_GPIPE ? DP_SCHED_GPIPE : DP_SCHED_1F1B;
    h->mem_limit_bytes = run->mem_limit_bytes;
    h->stage_message_bytes = run->boundary_bytes;
    h->blocks_differ = !(run->traits & DYNPIPE_EQUAL_COST);
    h->is_fixed = !(run->traits & DYNPIPE_CAN_MOVE);
    h->stays = !(run->traits & DYNPIPE_CAN_LEAVE);
    if (take_text(h->device, sizeof h->device, run->device ? run->device : "cpu", false, "device", err) < 0 ||
        take_text(h->trainer, sizeof h->trainer, run->trainer ? run->trainer : "not named", false, "trainer", err) < 0 ||
        take_text(h->checkpoint_dir, sizeof h->checkpoint_dir, run->checkpoint_dir, true, "checkpoint_dir", err) < 0)
        return -1;
    return take_layout(run, h, layout, err) < 0 ? -1 : take_changes(run, h, err);
}
