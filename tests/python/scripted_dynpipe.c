/* SPDX-License-Identifier: BSD-3-Clause */
/* A libdynpipe without a daemon, for tests of lib/python: it plays a script, so that a hand-over comes at the step that the test wants.
 * DYNPIPE_SCRIPT names a file of lines, which all workers of the run read:
 *   refuse TEXT              dynpipe_join() says so
 *   move STEP OUTCOME CUT..  once so many steps are reported a hand-over to that layout is pending; the first line's number is 1.
 *                            OUTCOME of a yes: commit, abort, or end. A worker that has no layers afterwards leaves
 *   propose STEP CUT..       from that step on the proposal; in runs of so many workers
 *   hang CALL                that call (join, prepare, decide) takes all of its time, and knows nothing then
 *   keep N                   so many times state() says KEEPING after a commit, or LEAVING
 *   save STEP N              what take_save() says once
 * DYNPIPE_SCRIPT_LOG: a file to which each call adds a line. DYNPIPE_SCRIPT_ABI: what dynpipe_abi() says. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/dynpipe.h"

#define MAX_MOVES 16
#define MAX_CUTS 16

struct move {
    uint64_t step;
    char outcome[8];
    uint32_t cut[MAX_CUTS + 1];
};

struct dynpipe {
    uint32_t rank, n_workers, n_layers;
    uint32_t cut[MAX_CUTS + 1], old_cut[MAX_CUTS + 1];
    uint8_t gone[MAX_CUTS];
    uint64_t step, decided; /* moves that are over */
    int n_moves, has_proposal;
    struct move move[MAX_MOVES], proposal;
    char hang[16];
    int keep, kept, save;
    uint64_t save_step;
    char why[128];
};

static void (*tell)(void *, int, const char *);
static void *tell_arg;

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
    const char *path = getenv("DYNPIPE_SCRIPT_LOG");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    char line[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (fd < 0)
        return;
    n = n < (int)sizeof line - 1 ? n : (int)sizeof line - 2;
    line[n++] = '\n';
    if (write(fd, line, (size_t)n) != n)
        tell = NULL; /* the test misses the line */
    close(fd);
}

static const char *text(const char *given) { return given ? given : "-"; }

static void spend(uint32_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

/* returns: for how many workers it is */
static uint32_t read_cut(const char *line, uint32_t *cut)
{
    uint32_t k = 0;
    for (int used; k <= MAX_CUTS && sscanf(line, "%u%n", &cut[k], &used) == 1; k++)
        line += used;
    return k ? k - 1 : 0;
}

/* returns: 0, or -1 where the script refuses; why: [cap] */
static int read_script(struct dynpipe *d, char *why, uint64_t cap)
{
    const char *path = getenv("DYNPIPE_SCRIPT");
    FILE *f = path ? fopen(path, "re") : NULL;
    char line[256];
    int at, refused = 0;
    while (f && fgets(line, sizeof line, f)) {
        struct move *m = &d->move[d->n_moves];
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "refuse ", 7)) {
            snprintf(why, cap, "%s", line + 7);
            refused = -1;
        } else if (d->n_moves < MAX_MOVES && sscanf(line, "move %" SCNu64 " %7s %n", &m->step, m->outcome, &at) == 2) {
            read_cut(line + at, m->cut);
            d->n_moves++;
        } else if (sscanf(line, "propose %" SCNu64 " %n", &d->proposal.step, &at) == 1) {
            d->has_proposal = read_cut(line + at, d->proposal.cut) == d->n_workers;
        } else if (sscanf(line, "save %" SCNu64 " %d", &d->save_step, &d->save) != 2 && sscanf(line, "keep %d", &d->keep) != 1) {
            sscanf(line, "hang %15s", d->hang);
        }
    }
    if (f)
        fclose(f);
    return refused;
}

uint32_t dynpipe_abi(void)
{
    const char *abi = getenv("DYNPIPE_SCRIPT_ABI");
    return abi ? (uint32_t)strtoul(abi, NULL, 10) : DYNPIPE_ABI;
}

const char *dynpipe_version(void) { return "0.0.0-script"; }

struct dynpipe *dynpipe_join(const struct dynpipe_run *r, uint32_t timeout_ms, char *why, uint64_t cap)
{
    struct dynpipe *d = calloc(1, sizeof *d);
    if (!d || r->n_workers > MAX_CUTS) {
        free(d);
        errno = ENOMEM;
        return NULL;
    }
    d->rank = r->rank;
    d->n_workers = r->n_workers;
    d->n_layers = r->n_layers;
    d->step = r->step;
    memcpy(d->cut, r->cut, (r->n_workers + 1) * sizeof *d->cut);
    int refused = read_script(d, why, cap);
    note("%u join size=%u traits=%u workers=%u layers=%u schedule=%u microbatches=%u tokens=%u step=%" PRIu64 " steps=%" PRIu64
         " boundary=%" PRIu64 " limit=%" PRIu64 " changes=%u leave=%u doubt=%u device=%s trainer=%s checkpoint=%s socket=%s",
         r->rank, r->size, r->traits, r->n_workers, r->n_layers, r->schedule, r->microbatches, r->tokens_per_microbatch, r->step,
         r->steps_total, r->boundary_bytes, r->mem_limit_bytes, r->n_changes, r->leave_s, r->doubt_s, text(r->device),
         text(r->trainer), text(r->checkpoint_dir), text(r->socket));
    for (uint32_t k = 0; k < r->n_changes; k++)
        note("%u change step=%" PRIu64 " kind=%u value=%g", r->rank, r->change[k].step, r->change[k].kind, r->change[k].value);
    if (tell)
        tell(tell_arg, 1, "a line of the library");
    if (!strcmp(d->hang, "join"))
        spend(timeout_ms);
    if (refused || r->rank >= r->n_workers) {
        if (!refused)
            snprintf(why, cap, "rank is %u of %u workers", r->rank, r->n_workers);
        free(d);
        errno = refused ? EACCES : EINVAL;
        return NULL;
    }
    return d;
}

void dynpipe_on_log(void (*fn)(void *arg, int level, const char *line), void *arg)
{
    tell = fn;
    tell_arg = arg;
}

int dynpipe_is_connected(struct dynpipe *d) { return d != NULL; }
int dynpipe_fd(const struct dynpipe *d)
{
    (void)d;
    return -1;
}

void dynpipe_poll(struct dynpipe *d) { note("%u poll", d->rank); }
const char *dynpipe_why(const struct dynpipe *d) { return d->why; }

int dynpipe_report(struct dynpipe *d, const struct dynpipe_step *s, const struct dynpipe_load *load, uint32_t n)
{
    uint32_t own = d->cut[d->rank + 1] - d->cut[d->rank];
    if (n != own || s->step != d->step + 1) {
        snprintf(d->why, sizeof d->why, "step %" PRIu64 " with %u layers: it is step %" PRIu64 " with %u", s->step, n,
                 d->step + 1, own);
        return -1;
    }
    d->step = s->step;
    for (uint32_t k = 0; k < n; k++)
        note("%u report step=%" PRIu64 " layer=%u fwd=%d bwd=%d state=%" PRIu64 " act=%" PRIu64 " params=%" PRIu64 " nnz=%" PRIu64,
             d->rank, s->step, d->cut[d->rank] + k, load[k].fwd_ns > 0, load[k].bwd_input_ns > 0, load[k].state_bytes,
             load[k].act_bytes, load[k].params, load[k].nnz);
    return s->step % 2 == 0;
}

void dynpipe_forget(struct dynpipe *d) { note("%u forget", d->rank); }

int dynpipe_expect(struct dynpipe *d, uint64_t step, uint32_t first_layer, const struct dynpipe_load *load, uint32_t n)
{
    note("%u expect step=%" PRIu64 " first=%u n=%u fwd=%" PRIu64, d->rank, step, first_layer, n, n ? load[0].fwd_ns : 0);
    snprintf(d->why, sizeof d->why, "layers %u to %u of %u", first_layer, first_layer + n, d->n_layers);
    return first_layer + n <= d->n_layers ? 0 : -1;
}

int dynpipe_event(struct dynpipe *d, int kind, uint64_t step, double value, const char *said)
{
    note("%u event kind=%d step=%" PRIu64 " value=%g text=%s", d->rank, kind, step, value, text(said));
    return kind < 0 || kind > 7 ? -1 : 0;
}

int dynpipe_leads(const struct dynpipe *d)
{
    for (uint32_t r = 0; r < d->rank; r++)
        if (!d->gone[r])
            return 0;
    return 1;
}

static struct move *next(struct dynpipe *d)
{
    return d->decided < (uint64_t)d->n_moves && d->step >= d->move[d->decided].step ? &d->move[d->decided] : NULL;
}

uint64_t dynpipe_pending(struct dynpipe *d) { return dynpipe_leads(d) && next(d) ? d->decided + 1 : 0; }

static void fill(struct dynpipe *d, const struct move *m, struct dynpipe_plan *plan)
{
    static uint8_t gone[MAX_CUTS];
    plan->n_workers = d->n_workers;
    plan->n_layers = d->n_layers;
    plan->n_moves = 0;
    plan->old_cut = d->cut;
    plan->cut = m->cut;
    plan->gone = gone;
    for (uint32_t r = 0; r < d->n_workers; r++)
        gone[r] = m->cut[r] == m->cut[r + 1];
}

int dynpipe_prepare(struct dynpipe *d, uint64_t m, struct dynpipe_plan *plan, uint32_t timeout_ms)
{
    struct move *move = next(d);
    note("%u prepare %" PRIu64, d->rank, m);
    if (!strcmp(d->hang, "prepare"))
        spend(timeout_ms);
    if (!strcmp(d->hang, "prepare") || !move || m != d->decided + 1)
        return 0;
    fill(d, move, plan);
    plan->migration = m;
    return 1;
}

int dynpipe_decide(struct dynpipe *d, uint64_t m, int yes, const uint8_t digest[32], const char *why, uint32_t timeout_ms)
{
    struct move *move = next(d);
    note("%u decide %" PRIu64 " yes=%d digest=%02x why=%s", d->rank, m, yes, digest ? digest[0] : 0, text(why));
    if (!strcmp(d->hang, "decide") && yes) {
        note("%u waits %u ms", d->rank, timeout_ms);
        spend(timeout_ms);
        return DYNPIPE_AGAIN;
    }
    if (!move || m != d->decided + 1)
        return DYNPIPE_ABORT;
    if (yes && !strcmp(move->outcome, "end")) {
        snprintf(d->why, sizeof d->why, "the script ends it");
        return DYNPIPE_END;
    }
    d->decided++;
    if (!yes || strcmp(move->outcome, "commit") != 0)
        return DYNPIPE_ABORT;
    memcpy(d->cut, move->cut, sizeof d->cut);
    for (uint32_t r = 0; r < d->n_workers; r++)
        d->gone[r] = d->cut[r] == d->cut[r + 1];
    d->kept = d->keep;
    return DYNPIPE_COMMIT;
}

void dynpipe_done(struct dynpipe *d, uint64_t m, uint64_t pause_ns, uint64_t transfer_ns)
{
    note("%u done %" PRIu64 " pause=%d transfer=%d", d->rank, m, pause_ns > 0, transfer_ns > 0);
}

int dynpipe_state(struct dynpipe *d)
{
    if (d->kept > 0) {
        d->kept--;
        return d->gone[d->rank] ? DYNPIPE_LEAVING : DYNPIPE_KEEPING;
    }
    return d->gone[d->rank] ? DYNPIPE_LEAVE : DYNPIPE_IDLE;
}

void dynpipe_wait(struct dynpipe *d, uint32_t timeout_ms)
{
    note("%u wait", d->rank);
    spend(timeout_ms);
}

uint32_t dynpipe_layout(const struct dynpipe *d, uint32_t *cut)
{
    if (cut)
        memcpy(cut, d->cut, (d->n_workers + 1) * sizeof *cut);
    return d->n_workers;
}

int dynpipe_proposal(struct dynpipe *d, struct dynpipe_plan *plan)
{
    if (!d->has_proposal || d->step < d->proposal.step)
        return 0;
    fill(d, &d->proposal, plan);
    plan->migration = 7;
    plan->now_ns = 2e6;
    plan->then_ns = 1e6;
    return 1;
}

int dynpipe_take_save(struct dynpipe *d)
{
    int save = d->step >= d->save_step ? d->save : 0;
    d->save = save ? 0 : d->save;
    return save;
}

double dynpipe_time_left(const struct dynpipe *d) { return d->rank ? (double)NAN : (double)INFINITY; }

void dynpipe_leave(struct dynpipe *d, int how, const char *said)
{
    note("%u leave how=%d text=%s", d->rank, how, text(said));
    free(d);
}

/* STRUCT FIELD OFFSET SIZE, a line each: what the compiler makes of dynpipe.h, for the test of the structs of lib/python. */
const char *scripted_fields(void);
const char *scripted_fields(void)
{
    static char out[4096];
    size_t n = 0;
#define FIELD(S, F) n += (size_t)snprintf(out + n, sizeof out - n, #S " " #F " %zu %zu\n", offsetof(struct dynpipe_##S, F), \
                                          sizeof(((struct dynpipe_##S *)0)->F));
#define RUN(F) FIELD(run, F)
#define STEP(F) FIELD(step, F)
#define PLAN(F) FIELD(plan, F)
#define LOAD(F) FIELD(load, F)
#define CHANGE(F) FIELD(change, F)
    RUN(size) RUN(traits) RUN(rank) RUN(n_workers) RUN(n_layers) RUN(schedule) RUN(microbatches) RUN(tokens_per_microbatch)
    RUN(step) RUN(steps_total) RUN(boundary_bytes) RUN(mem_limit_bytes) RUN(cut) RUN(change) RUN(n_changes) RUN(leave_s)
    RUN(doubt_s) RUN(zero) RUN(device) RUN(trainer) RUN(checkpoint_dir) RUN(socket)
    STEP(size) STEP(zero) STEP(step) STEP(wall_ns) STEP(wait_ns) STEP(optimizer_ns) STEP(busy_ns) STEP(mem_bytes) STEP(loss) STEP(grad_norm)
    PLAN(size) PLAN(n_workers) PLAN(n_layers) PLAN(n_moves) PLAN(migration) PLAN(old_cut) PLAN(cut) PLAN(gone) PLAN(now_ns) PLAN(then_ns)
    LOAD(fwd_ns) LOAD(bwd_input_ns) LOAD(bwd_weight_ns) LOAD(state_bytes) LOAD(act_bytes) LOAD(params) LOAD(nnz)
    CHANGE(step) CHANGE(value) CHANGE(kind) CHANGE(zero)
    snprintf(out + n, sizeof out - n, "run - 0 %zu\nstep - 0 %zu\nplan - 0 %zu\nload - 0 %zu\nchange - 0 %zu\n", sizeof(struct dynpipe_run),
             sizeof(struct dynpipe_step), sizeof(struct dynpipe_plan), sizeof(struct dynpipe_load), sizeof(struct dynpipe_change));
    return out;
}
