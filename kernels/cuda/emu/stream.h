/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams and events: what was asked for and is not done yet, and in which order it may be done. */
#ifndef DP_KERNELS_CUDA_EMU_STREAM_H
#define DP_KERNELS_CUDA_EMU_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/emu/block.h"
#include "kernels/cuda/emu/check.h"
#include "kernels/cuda/emu/types.h"

/* A record of an event: the same for all who wait for it. */
struct dp_emu_record {
    int holders;
    bool done;
    uint64_t ns; /* when it was done */
    struct dp_emu_clock clock;
};

struct dp_emu_event {
    struct dp_emu_record *record; /* the last; NULL: never recorded */
    bool times, is_captured;      /* is_captured: its last record belongs to a capture, and is no point in time */
    long graphs;                  /* that record it */
};

enum dp_emu_kind { DP_EMU_LAUNCH, DP_EMU_COPY, DP_EMU_SET, DP_EMU_RECORD, DP_EMU_WAIT };

struct dp_emu_item {
    struct dp_emu_item *next;
    enum dp_emu_kind kind;
    uint64_t number; /* in its stream */
    struct dp_emu_clock host; /* what the host knew to be done */
    uint64_t asked_ns;
    union {
        struct {
            struct dp_emu_launch launch;
            void **args; /* and behind them what they point to */
            const size_t *sizes; /* theirs */
        };
        struct {
            void *dst;
            const void *src; /* NULL: `byte` everywhere */
            size_t bytes;
            int byte;
        };
        struct {
            struct dp_emu_record *record;
            struct dp_emu_event *event; /* of a graph's: whose record it will be, each time */
        };
    };
};

/* Work that was captured, in its order: of one stream, so that each waits for the one before. */
struct dp_emu_graph {
    struct dp_emu_item *first, **end;
    bool is_invalid; /* a call came in between that a capture forbids */
};

struct dp_emu_stream {
    int number;
    uint64_t asked, done; /* works, counted over all streams that ever had this number */
    struct dp_emu_clock known; /* what comes before its next work */
    struct dp_emu_item *first, **end;
    struct dp_emu_graph *capture; /* NULL: what it is asked for is to be done */
};

/* Begin, with a seed; the end of it all. */
void dp_stream_begin(uint64_t seed);
void dp_stream_end(void);
/* NULL without memory, or when there are DP_EMU_STREAMS. */
struct dp_emu_stream *dp_stream_make(void);
void dp_stream_drop(struct dp_emu_stream *s);
/* Ask a stream for an item (malloc, its own part filled in), which it takes. */
void dp_stream_ask(struct dp_emu_stream *s, struct dp_emu_item *item);
/* A launch's arguments, taken now. NULL without memory. */
void **dp_launch_copy_args(void **args, const size_t *sizes);
/* A graph without work; NULL without memory. */
struct dp_emu_graph *dp_graph_make(void);
/* g takes the item. */
void dp_graph_add(struct dp_emu_graph *g, struct dp_emu_item *item);
/* The same work once more, for a graph or for a stream; NULL without memory. */
struct dp_emu_item *dp_graph_copy(const struct dp_emu_item *item);
void dp_graph_drop(struct dp_emu_graph *g);
/* An item that no stream took. */
void dp_item_free(struct dp_emu_item *item);
/* Do something; `wanted` (or NULL) is what the host waits for, which some seeds prefer. returns: false when nothing is
 * left that may be done. */
bool dp_stream_step(struct dp_emu_stream *wanted);
/* Do what some seeds do at once, others later. */
void dp_stream_eager(void);
/* The host learns that this is done. */
void dp_stream_learn(const struct dp_emu_clock *clock);
void dp_stream_learn_all(const struct dp_emu_stream *s);
/* What the host knows. */
const struct dp_emu_clock *dp_stream_known(void);
void dp_record_release(struct dp_emu_record *r);
uint64_t *dp_stream_random(void);

/* (memory.c) A copy or a fill of that stream runs. returns: 0, or -1: a finding. */
int dp_memory_run(const struct dp_emu_item *item, int stream);
/* (memory.c) The host knows more: staging memory may be touched again. */
void dp_memory_learned(void);

#endif
