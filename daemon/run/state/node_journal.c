/* SPDX-License-Identifier: BSD-3-Clause */
/* See node_journal.h. Records: ADOPT (body of STEP_START), FENCE (job, restart count, incarnation), END
 * (job). A log that has grown, or a write of which failed, is written anew with what still counts. Each
 * ADOPT keeps room for what must be written later, so that a full disk does not hold up a release. */
#include "config.h"

#include "daemon/run/state/node_journal.h"

#include <stdlib.h>
#include <string.h>

#include "common/file/journal.h"
#include "common/wire.h"

#define LATER_BYTES 128u /* FENCE and END of a job, with their heads */

enum { REC_ADOPT = 1, REC_FENCE = 2, REC_END = 3 };

struct dp_node_journal {
    struct dp_journal *journal;
    struct dp_node_job *jobs;
};

static struct dp_node_job *job_of(struct dp_node_journal *l, uint32_t job_id)
{
    struct dp_node_job *j;

    for (j = l->jobs; j; j = j->next)
        if (j->job_id == job_id)
            return j;
    j = calloc(1, sizeof *j);
    if (!j)
        return NULL;
    j->job_id = job_id;
    j->next = l->jobs;
    l->jobs = j;
    return j;
}

static void drop(struct dp_node_journal *l, uint32_t job_id)
{
    for (struct dp_node_job **at = &l->jobs; *at; at = &(*at)->next)
        if ((*at)->job_id == job_id) {
            struct dp_node_job *j = *at;

            *at = j->next;
            free(j);
            return;
        }
}

/* Journals of release 0.1.0 have the STEP_START of protocol version 1. */
static int decode_adopt(const void *payload, size_t bytes, struct dp_msg_step_start *start, struct dp_err *err)
{
    struct dp_reader r;

    dp_reader_init(&r, payload, bytes);
    if (dp_msg_step_start_decode(&r, start, err) == 0)
        return 0;
    dp_reader_init(&r, payload, bytes);
    r.version = 1;
    return dp_msg_step_start_decode(&r, start, err);
}

/* Make the memory agree with a record that is durable. */
static int apply(struct dp_node_journal *l, uint8_t type, const void *payload, size_t bytes, struct dp_err *err)
{
    struct dp_msg_step_start start;
    struct dp_node_job *j;
    struct dp_reader r;
    uint32_t job_id;

    dp_reader_init(&r, payload, bytes);
    switch (type) {
    case REC_ADOPT:
        if (decode_adopt(payload, bytes, &start, err) < 0)
            return -1;
        j = job_of(l, start.job_id);
        if (!j)
            return dp_err_set(err, DP_ENOMEM, "out of memory");
        j->start = start;
        return 0;
    case REC_FENCE:
        job_id = dp_rd_u32(&r);
        j = job_of(l, job_id);
        if (!j)
            return dp_err_set(err, DP_ENOMEM, "out of memory");
        j->is_fenced = true;
        j->fence_restart = dp_rd_u32(&r);
        j->fence_incarnation = dp_rd_u32(&r);
        break;
    case REC_END:
        drop(l, dp_rd_u32(&r));
        break;
    default:
        return dp_err_set(err, DP_ECORRUPT, "node journal: unknown record %u", type);
    }
    return dp_reader_at_end(&r) ? 0 : dp_err_set(err, DP_ECORRUPT, "node journal: bad record %u", type);
}

static int replay(void *arg, uint8_t type, const void *payload, size_t bytes, struct dp_err *err)
{
    return apply(arg, type, payload, bytes, err);
}

int dp_node_journal_replay(struct dp_node_journal *l, uint8_t type, const void *payload, size_t bytes, struct dp_err *err)
{
    return apply(l, type, payload, bytes, err);
}

static int append(struct dp_node_journal *l, uint8_t type, const struct dp_writer *w, struct dp_err *err)
{
    if (dp_journal_append(l->journal, type, w->start, dp_writer_used(w), err) < 0)
        return -1;
    return apply(l, type, w->start, dp_writer_used(w), err);
}

static int write_adopt(struct dp_journal *to, const struct dp_msg_step_start *start, struct dp_err *err)
{
    uint8_t body[1024];
    struct dp_writer w;

    dp_writer_init(&w, body, sizeof body);
    dp_msg_step_start_encode(&w, start);
    return dp_journal_append(to, REC_ADOPT, body, dp_writer_used(&w), err);
}

static void encode_fence(struct dp_writer *w, uint32_t job_id, uint32_t restart, uint32_t incarnation)
{
    dp_wr_u32(w, job_id);
    dp_wr_u32(w, restart);
    dp_wr_u32(w, incarnation);
}

static int fill(void *arg, struct dp_journal *fresh, struct dp_err *err)
{
    const struct dp_node_journal *l = arg;

    for (const struct dp_node_job *j = l->jobs; j; j = j->next) {
        uint8_t body[16];
        struct dp_writer w;

        if (j->start.job_id && write_adopt(fresh, &j->start, err) < 0)
            return -1;
        dp_writer_init(&w, body, sizeof body);
        encode_fence(&w, j->job_id, j->fence_restart, j->fence_incarnation);
        if (j->is_fenced && dp_journal_append(fresh, REC_FENCE, body, dp_writer_used(&w), err) < 0)
            return -1;
    }
    return 0;
}

struct dp_node_journal *dp_node_journal_create(struct dp_err *err)
{
    struct dp_node_journal *l = calloc(1, sizeof *l);

    if (!l)
        dp_err_set(err, DP_ENOMEM, "out of memory");
    return l;
}

struct dp_node_journal *dp_node_journal_open(const char *path, struct dp_err *err)
{
    struct dp_node_journal *l = dp_node_journal_create(err);

    if (!l)
        return NULL;
    l->journal = dp_journal_open(path, replay, fill, l, err);
    if (!l->journal) {
        dp_node_journal_destroy(l);
        return NULL;
    }
    return l;
}

void dp_node_journal_destroy(struct dp_node_journal *l)
{
    if (!l)
        return;
    dp_journal_destroy(l->journal);
    while (l->jobs)
        drop(l, l->jobs->job_id);
    free(l);
}

/* With the one that comes. */
static size_t n_jobs(const struct dp_node_journal *l)
{
    size_t n = 1;

    for (const struct dp_node_job *j = l->jobs; j; j = j->next)
        n++;
    return n;
}

int dp_node_journal_adopt(struct dp_node_journal *l, const struct dp_msg_step_start *start, struct dp_err *err)
{
    const struct dp_node_job *known = dp_node_journal_find(l, start->job_id);
    struct dp_writer w;
    uint8_t body[1024];

    if (known && !memcmp(&known->start, start, sizeof *start))
        return 0;
    dp_writer_init(&w, body, sizeof body);
    dp_msg_step_start_encode(&w, start);
    if (dp_journal_reserve(l->journal, DP_JOURNAL_HEAD_BYTES + dp_writer_used(&w) + n_jobs(l) * LATER_BYTES, err) < 0)
        return -1;
    return append(l, REC_ADOPT, &w, err);
}

int dp_node_journal_fence(struct dp_node_journal *l, uint32_t job_id, uint32_t restart, uint32_t incarnation,
                      struct dp_err *err)
{
    struct dp_writer w;
    uint8_t body[16];

    dp_writer_init(&w, body, sizeof body);
    encode_fence(&w, job_id, restart, incarnation);
    return append(l, REC_FENCE, &w, err);
}

int dp_node_journal_end(struct dp_node_journal *l, uint32_t job_id, struct dp_err *err)
{
    struct dp_writer w;
    uint8_t body[8];
    int rc;

    if (!dp_node_journal_find(l, job_id))
        return 0;
    dp_writer_init(&w, body, sizeof body);
    dp_wr_u32(&w, job_id);
    rc = append(l, REC_END, &w, err);
    drop(l, job_id);
    return rc;
}

const char *dp_node_journal_trouble(const struct dp_node_journal *l)
{
    return dp_journal_trouble(l->journal);
}

const struct dp_node_job *dp_node_journal_first(const struct dp_node_journal *l)
{
    return l->jobs;
}

const struct dp_node_job *dp_node_journal_find(const struct dp_node_journal *l, uint32_t job_id)
{
    for (const struct dp_node_job *j = l->jobs; j; j = j->next)
        if (j->job_id == job_id)
            return j;
    return NULL;
}
