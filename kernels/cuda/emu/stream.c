/* SPDX-License-Identifier: BSD-3-Clause */
/* Work is done when the host waits for it, or before, as the seed has it. What the host does not wait for, and no event
 * asks for, some seeds leave to the very end: a card that is late.
 *
 * What comes before what is kept in clocks (check.h): of each stream, of each record of an event, and of the host. */
#include "kernels/cuda/emu/stream.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "kernels/cuda/emu/emu.h"

/* What a seed does with work that nobody waits for. */
enum habit { AT_ONCE, LATE, SOMETIMES, N_HABITS };

static struct {
    uint64_t random;
    enum habit habit;
    struct dp_emu_stream *streams[DP_EMU_STREAMS];
    struct dp_emu_clock asked; /* works of streams of that number, ever */
    struct dp_emu_clock host;
    long failed;
} all = {.random = 1};

void dp_stream_begin(uint64_t seed)
{
    all.random = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    for (int i = 0; i < 8; i++) /* small seeds differ in few bits */
        dp_emu_random(&all.random);
    all.habit = (enum habit)(seed % N_HABITS);
}

uint64_t *dp_stream_random(void)
{
    return &all.random;
}

static void join(struct dp_emu_clock *to, const struct dp_emu_clock *from)
{
    for (int i = 0; i < DP_EMU_STREAMS; i++)
        if (to->at[i] < from->at[i])
            to->at[i] = from->at[i];
}

struct dp_emu_stream *dp_stream_make(void)
{
    int i = 0;
    struct dp_emu_stream *s;

    while (i < DP_EMU_STREAMS && all.streams[i])
        i++;
    s = i < DP_EMU_STREAMS ? calloc(1, sizeof *s) : NULL;
    if (!s)
        return NULL;
    s->number = i;
    s->asked = s->done = all.asked.at[i];
    s->end = &s->first;
    all.streams[i] = s;
    return s;
}

void dp_record_release(struct dp_emu_record *r)
{
    if (r && --r->holders == 0)
        free(r);
}

void dp_item_free(struct dp_emu_item *item)
{
    if (item->kind == DP_EMU_RECORD || item->kind == DP_EMU_WAIT)
        dp_record_release(item->record);
    if (item->kind == DP_EMU_RECORD && item->event)
        item->event->graphs--;
    if (item->kind == DP_EMU_LAUNCH)
        free(item->args);
    free(item);
}

/* Arguments are taken now: pointers, and behind them, 16 bytes each at least, the values. */
void **dp_launch_copy_args(void **args, const size_t *sizes)
{
    size_t n = 0, bytes = 0;
    void **copy;
    char *at;

    for (; sizes[n]; n++)
        bytes += (sizes[n] + 15) / 16 * 16;
    copy = aligned_alloc(16, (n * sizeof *copy + 15) / 16 * 16 + bytes + 16);
    if (!copy)
        return NULL;
    at = (char *)copy + (n * sizeof *copy + 15) / 16 * 16;
    for (size_t i = 0; i < n; i++) {
        copy[i] = at;
        memcpy(at, args[i], sizes[i]);
        at += (sizes[i] + 15) / 16 * 16;
    }
    return copy;
}

struct dp_emu_graph *dp_graph_make(void)
{
    struct dp_emu_graph *g = calloc(1, sizeof *g);

    if (g)
        g->end = &g->first;
    return g;
}

void dp_graph_add(struct dp_emu_graph *g, struct dp_emu_item *item)
{
    item->next = NULL;
    *g->end = item;
    g->end = &item->next;
}

struct dp_emu_item *dp_graph_copy(const struct dp_emu_item *item)
{
    struct dp_emu_item *copy = malloc(sizeof *copy);

    if (!copy)
        return NULL;
    *copy = *item;
    if (item->kind == DP_EMU_LAUNCH) {
        copy->args = dp_launch_copy_args(item->args, item->sizes);
        copy->launch.args = copy->args;
        if (!copy->args) {
            free(copy);
            return NULL;
        }
    }
    if (item->kind == DP_EMU_RECORD)
        copy->event->graphs++;
    return copy;
}

void dp_graph_drop(struct dp_emu_graph *g)
{
    if (!g)
        return;
    while (g->first) {
        struct dp_emu_item *item = g->first;

        g->first = item->next;
        dp_item_free(item);
    }
    free(g);
}

void dp_stream_ask(struct dp_emu_stream *s, struct dp_emu_item *item)
{
    item->next = NULL;
    item->number = ++s->asked;
    all.asked.at[s->number] = s->asked;
    item->host = all.host;
    item->asked_ns = dp_now_ns();
    *s->end = item;
    s->end = &item->next;
}

static bool may_run(const struct dp_emu_stream *s)
{
    return s->first && (s->first->kind != DP_EMU_WAIT || s->first->record->done);
}

static void run_first(struct dp_emu_stream *s)
{
    struct dp_emu_item *item = s->first;
    struct dp_emu_work work;

    s->first = item->next;
    if (!s->first)
        s->end = &s->first;
    join(&s->known, &item->host);
    work = (struct dp_emu_work){.stream = s->number, .number = item->number, .asked_ns = item->asked_ns};
    switch (item->kind) {
    case DP_EMU_LAUNCH:
        dp_check_work(item->launch.name, &work, &s->known);
        if (dp_emu_findings() == 0) /* a card that has failed does nothing any more */
            dp_emu_run(&item->launch, &all.random);
        break;
    case DP_EMU_COPY:
    case DP_EMU_SET:
        dp_check_work("a copy", &work, &s->known);
        if (dp_emu_findings() == 0)
            dp_memory_run(item, s->number);
        break;
    case DP_EMU_RECORD:
        item->record->clock = s->known;
        item->record->clock.at[s->number] = item->number;
        item->record->ns = dp_now_ns();
        item->record->done = true;
        break;
    case DP_EMU_WAIT:
        join(&s->known, &item->record->clock);
        break;
    }
    s->done = item->number;
    s->known.at[s->number] = item->number;
    dp_item_free(item);
}

bool dp_stream_step(struct dp_emu_stream *wanted)
{
    int first = (int)(dp_emu_random(&all.random) % DP_EMU_STREAMS);

    if (wanted && all.habit == LATE && may_run(wanted)) {
        run_first(wanted);
        return true;
    }
    for (int i = 0; i < DP_EMU_STREAMS; i++) {
        struct dp_emu_stream *s = all.streams[(first + i) % DP_EMU_STREAMS];

        if (s && may_run(s)) {
            run_first(s);
            return true;
        }
    }
    return false;
}

void dp_stream_eager(void)
{
    if (all.habit == AT_ONCE)
        while (dp_stream_step(NULL))
            ;
    else if (all.habit == SOMETIMES && dp_emu_random(&all.random) % 4 == 0)
        dp_stream_step(NULL);
}

void dp_stream_drop(struct dp_emu_stream *s)
{
    while (s->first && dp_stream_step(s))
        ;
    all.streams[s->number] = NULL;
    while (s->first) {
        struct dp_emu_item *item = s->first;

        s->first = item->next;
        dp_item_free(item);
    }
    free(s);
}

void dp_stream_learn(const struct dp_emu_clock *clock)
{
    join(&all.host, clock);
    dp_memory_learned();
    dp_ipc_learned(&all.host);
}

void dp_stream_learn_all(const struct dp_emu_stream *s)
{
    struct dp_emu_clock clock = s->known;
    bool idle = true;

    clock.at[s->number] = s->done;
    dp_stream_learn(&clock);
    for (int i = 0; i < DP_EMU_STREAMS; i++)
        idle = idle && (!all.streams[i] || !all.streams[i]->first);
    if (idle) /* whatever is asked for from now on knows what the host knows */
        dp_check_forget(&all.host);
}

const struct dp_emu_clock *dp_stream_known(void)
{
    return &all.host;
}

void dp_stream_end(void)
{
    for (int i = 0; i < DP_EMU_STREAMS; i++)
        if (all.streams[i])
            dp_stream_drop(all.streams[i]);
}
