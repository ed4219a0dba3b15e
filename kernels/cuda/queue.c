/* SPDX-License-Identifier: BSD-3-Clause */
/* Lanes are streams, tickets are events, laps are events that know the time.
 *
 * A ticket is 4 * number of the point + lane. Points of a lane are passed in their order, so that one that is passed
 * says the same of all before it, and its event serves again.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "kernels/cuda/record.h"
#include "kernels/cuda/tokens.h"

#define FIRST_MARKS 16 /* places of a lane at first; twice as many when they are taken */
#define FIRST_LAPS 64 /* likewise */

static enum dp_lane lane_of(dp_ticket t)
{
    return (enum dp_lane)(t % 4);
}

static uint64_t point_of(dp_ticket t)
{
    return t / 4;
}

static struct dp_cuda_point *mark_at(struct dp_cuda_lane *lane, uint64_t point)
{
    return &lane->marks[point % lane->n_marks];
}

/* Twice the places; those in use keep their points. */
static int more_marks(struct dp_cuda *cu, struct dp_cuda_lane *lane, struct dp_err *err)
{
    uint64_t n = lane->n_marks ? 2 * lane->n_marks : FIRST_MARKS;
    struct dp_cuda_point *marks = calloc(n, sizeof *marks);

    if (!marks)
        return dp_err_set(err, DP_ENOMEM, "cuda: %s: no memory for %llu tickets", cu->op, (unsigned long long)n);
    for (uint64_t i = 0; i < lane->n_marks; i++)
        marks[(lane->passed + 1 + i) % n] = *mark_at(lane, lane->passed + 1 + i);
    free(lane->marks);
    lane->marks = marks;
    lane->n_marks = n;
    return 0;
}

static bool is_lane(enum dp_lane lane)
{
    return (unsigned)lane < DP_N_LANES;
}

static void pass(struct dp_cuda *cu, enum dp_lane lane, uint64_t point)
{
    struct dp_cuda_lane *l = &cu->lanes[lane];

    if (lane == DP_LANE_COMPUTE && mark_at(l, point)->op > cu->done)
        cu->done = mark_at(l, point)->op;
    l->passed = point;
}

/* Points that have been passed without anybody asking for them. */
static int pass_more(struct dp_cuda *cu, enum dp_lane lane, struct dp_err *err)
{
    struct dp_cuda_lane *l = &cu->lanes[lane];

    while (l->passed < l->marked) {
        cudaError_t rc = dp_cuda_api.EventQuery(mark_at(l, l->passed + 1)->event);

        if (rc == cudaErrorNotReady)
            return 0;
        if (dp_cuda_check(cu, rc, "EventQuery", err) < 0)
            return -1;
        pass(cu, lane, l->passed + 1);
    }
    return 0;
}

int dp_cuda_mark(struct dp_backend *be, enum dp_lane lane, dp_ticket *out, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_of(be);
    struct dp_cuda_lane *l = &cu->lanes[lane];
    struct dp_cuda_point *m;

    if (dp_cuda_usable(cu, err) < 0)
        return -1;
    if (!is_lane(lane))
        return dp_err_set(err, DP_EINVAL, "cuda: mark: there is no lane %d", (int)lane);
    if (lane == DP_LANE_COMPUTE && dp_cuda_flush(cu, err) < 0)
        return -1;
    if (l->marked - l->passed == l->n_marks && pass_more(cu, lane, err) < 0)
        return -1;
    if (l->marked - l->passed == l->n_marks && more_marks(cu, l, err) < 0)
        return -1;
    m = mark_at(l, l->marked + 1);
    if (!m->event && DP_CUDA(cu, err, EventCreateWithFlags, &m->event,
                             cudaEventDisableTiming | cudaEventBlockingSync) < 0)
        return -1;
    if (DP_CUDA(cu, err, EventRecord, m->event, l->stream) < 0)
        return -1;
    m->op = cu->begun;
    *out = 4 * ++l->marked + (unsigned)lane;
    return 0;
}

/* A ticket that was given out. */
static int check_ticket(struct dp_cuda *cu, dp_ticket t, const char *who, struct dp_err *err)
{
    if (dp_cuda_usable(cu, err) < 0)
        return -1;
    if (t && (!is_lane(lane_of(t)) || !point_of(t) || point_of(t) > cu->lanes[lane_of(t)].marked))
        return dp_err_set(err, DP_EINVAL, "cuda: %s: %llu is no ticket of this backend", who, (unsigned long long)t);
    return 0;
}

int dp_cuda_after(struct dp_backend *be, enum dp_lane lane, dp_ticket t, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_of(be);
    struct dp_cuda_lane *of = &cu->lanes[lane_of(t)];

    if (check_ticket(cu, t, "after", err) < 0)
        return -1;
    if (!is_lane(lane))
        return dp_err_set(err, DP_EINVAL, "cuda: after: there is no lane %d", (int)lane);
    if (!t || point_of(t) <= of->passed || lane_of(t) == lane)
        return 0;
    if (lane == DP_LANE_COMPUTE && dp_cuda_flush(cu, err) < 0)
        return -1;
    return DP_CUDA(cu, err, StreamWaitEvent, cu->lanes[lane].stream, mark_at(of, point_of(t))->event, 0);
}

int dp_cuda_reached(struct dp_backend *be, dp_ticket t, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_of(be);
    struct dp_cuda_lane *lane = &cu->lanes[lane_of(t)];
    cudaError_t rc;

    if (check_ticket(cu, t, "reached", err) < 0)
        return -1;
    if (!t || point_of(t) <= lane->passed)
        return 1;
    rc = dp_cuda_api.EventQuery(mark_at(lane, point_of(t))->event);
    if (rc == cudaErrorNotReady)
        return 0;
    if (dp_cuda_check(cu, rc, "EventQuery", err) < 0)
        return -1;
    pass(cu, lane_of(t), point_of(t));
    return lane_of(t) == DP_LANE_COMPUTE && dp_cuda_read_note(cu, err) < 0 ? -1 : 1;
}

/* Not known to the device: how long somebody waits for what usually comes within microseconds. */
static void pause_at(int try)
{
    const struct timespec t = {.tv_nsec = try < 50 ? 1000 : 50000};

    if (try >= 10)
        nanosleep(&t, NULL);
}

int dp_cuda_await(struct dp_backend *be, dp_ticket t, uint64_t timeout_ns, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_of(be);
    uint64_t begin = dp_now_ns();
    int rc;

    for (int try = 0;; try += try < 100) {
        rc = dp_cuda_reached(be, t, err);
        if (rc != 0)
            return rc;
        if (timeout_ns == UINT64_MAX) {
            if (DP_CUDA(cu, err, EventSynchronize, mark_at(&cu->lanes[lane_of(t)], point_of(t))->event) < 0)
                return -1;
            continue;
        }
        if (dp_now_ns() - begin >= timeout_ns)
            return 0;
        pause_at(try);
    }
}

int dp_cuda_sync(struct dp_backend *be, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_of(be);

    if (dp_cuda_flush(cu, err) < 0)
        return -1;
    for (int i = 0; i < DP_N_LANES; i++) {
        if (DP_CUDA(cu, err, StreamSynchronize, cu->lanes[i].stream) < 0)
            return -1;
        cu->lanes[i].passed = cu->lanes[i].marked;
    }
    cu->done = cu->begun;
    dp_cuda_collect_freed(cu, false);
    return dp_cuda_read_note(cu, err);
}

uint64_t dp_cuda_time_ns(struct dp_backend *be)
{
    struct dp_cuda *cu = dp_cuda_of(be);

    if (dp_cuda_flush(cu, NULL) == 0)
        DP_CUDA(cu, NULL, StreamSynchronize, cu->lanes[DP_LANE_COMPUTE].stream);
    return dp_now_ns();
}

static int more_laps(struct dp_cuda *cu, struct dp_err *err)
{
    size_t n = cu->max_laps ? 2 * cu->max_laps : FIRST_LAPS;
    struct dp_cuda_time *laps = realloc(cu->laps, n * sizeof *laps);

    if (!laps)
        return dp_err_set(err, DP_ENOMEM, "cuda: no memory for %zu laps", n);
    memset(laps + cu->max_laps, 0, (n - cu->max_laps) * sizeof *laps);
    cu->laps = laps;
    cu->max_laps = n;
    return 0;
}

int dp_cuda_lap(struct dp_backend *be, uint64_t *sum_ns, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_of(be);
    struct dp_cuda_time *lap;

    if (dp_cuda_usable(cu, err) < 0 || (cu->n_laps == cu->max_laps && more_laps(cu, err) < 0))
        return -1;
    lap = &cu->laps[cu->n_laps];
    if (!lap->event && DP_CUDA(cu, err, EventCreateWithFlags, &lap->event, cudaEventBlockingSync) < 0)
        return -1;
    if (dp_cuda_tell_record(cu, lap->event, err) < 0)
        return -1;
    lap->sum_ns = sum_ns;
    cu->n_laps++;
    return 0;
}

int dp_cuda_laps_collect(struct dp_backend *be, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_of(be);
    struct dp_cuda_time last;

    if (dp_cuda_flush(cu, err) < 0)
        return -1;
    if (cu->n_laps < 2)
        return 0;
    last = cu->laps[cu->n_laps - 1];
    if (DP_CUDA(cu, err, EventSynchronize, last.event) < 0)
        return -1;
    for (size_t i = 1; i < cu->n_laps; i++) {
        float ms = 0.0f;

        if (!cu->laps[i].sum_ns)
            continue;
        if (DP_CUDA(cu, err, EventElapsedTime, &ms, cu->laps[i - 1].event, cu->laps[i].event) < 0)
            return -1;
        *cu->laps[i].sum_ns += ms > 0.0f ? (uint64_t)((double)ms * 1e6 + 0.5) : 0;
    }
    cu->laps[cu->n_laps - 1] = cu->laps[0];
    cu->laps[0] = last;
    cu->n_laps = 1;
    return dp_cuda_read_note(cu, err);
}
