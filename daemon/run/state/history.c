/* SPDX-License-Identifier: BSD-3-Clause */
/* See history.h. Files are called job-<id>.<restart>.<end>.json, written to a temporary name and renamed, so a reader
 * never sees half of one; each begins with the job and its owner, which is all that the index needs of it. */
#include "config.h"

#include "daemon/run/state/history.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/child.h"
#include "common/clock.h"
#include "common/log.h"
#include "daemon/child/helper.h"
#include "daemon/coord/coordinator.h"
#include "daemon/net/daemon_state.h"
#include "daemon/run/run.h"
#include "daemon/run/state/keep_clock.h"

#define INDEX_MAX_BYTES (64u << 20) /* struct dp_past of 2.8 million runs */
#define INDEX_DEADLINE_S 300.0 /* at the start alone, and nobody waits but `dynpipe status` of runs that are over */
#define SAVE_DEADLINE_S 60.0 /* for a disk that is slow; nothing else waits for it */
#define WRITING_MS 10000 /* patience with a file that is being written */
#define PER_TICK 16u     /* files that one tick removes */

/* A report that a child writes. */
struct saving {
    struct saving *next;
    struct dp_daemon *daemon;
    struct dp_past past;
    struct dp_helper *helper;
};

struct dp_past_list {
    struct dp_past *past; /* by end_ms */
    size_t n, cap;
    struct dp_helper *indexer; /* NULL: the index is complete */
    struct saving *savings;
    struct dp_keep_clock clock; /* by which all of these, and journals, are old */
};

static void folder_of(const struct dp_daemon *d, char *out, size_t cap)
{
    snprintf(out, cap, "%s/history", d->config->state_dir);
}

static void path_of(const struct dp_daemon *d, const struct dp_past *p, char *out, size_t cap)
{
    snprintf(out, cap, "%s/history/job-%u.%u.%llu.json", d->config->state_dir, p->job_id, p->restart_count,
             (unsigned long long)p->end_ms);
}

/* ---- the index ---- */

static bool is_same(const struct dp_past *a, const struct dp_past *b)
{
    return a->job_id == b->job_id && a->restart_count == b->restart_count && a->end_ms == b->end_ms;
}

static int add(struct dp_past_list *h, const struct dp_past *p)
{
    if (h->n == h->cap) {
        size_t cap = h->cap ? 2 * h->cap : 64;
        struct dp_past *more = realloc(h->past, cap * sizeof *more);

        if (!more)
            return -1;
        h->past = more;
        h->cap = cap;
    }
    h->past[h->n++] = *p;
    return 0;
}

static struct dp_past *find_same(const struct dp_past_list *h, const struct dp_past *p)
{
    for (size_t i = h->n; i > 0; i--) /* those that are looked for are new */
        if (is_same(&h->past[i - 1], p))
            return &h->past[i - 1];
    return NULL;
}

static void drop(struct dp_past_list *h, const struct dp_past *p)
{
    struct dp_past *at = find_same(h, p);

    if (!at)
        return;
    memmove(at, at + 1, (size_t)(h->past + h->n - at - 1) * sizeof *at);
    h->n--;
}

const struct dp_past *dp_history_find(const struct dp_daemon *d, uint32_t job_id)
{
    const struct dp_past_list *h = d->history;

    for (size_t i = h->n; i > 0; i--)
        if (h->past[i - 1].job_id == job_id)
            return &h->past[i - 1];
    return NULL;
}

/* ---- the child that makes it ---- */

static bool parse_name(const char *name, struct dp_past *p)
{
    unsigned long long end_ms;
    int used = 0;

    memset(p, 0, sizeof *p);
    if (sscanf(name, "job-%u.%u.%llu.json%n", &p->job_id, &p->restart_count, &end_ms, &used) != 3 || name[used])
        return false;
    p->end_ms = end_ms;
    return true;
}

/* The owner: from the first bytes of the file, which document() wrote. */
static bool read_owner(int folder, const char *name, struct dp_past *p)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n;
    char text[128];
    unsigned job;

    if (fd < 0)
        return false;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return sscanf(text, "{\"job_id\":%u,\"uid\":%u,", &job, &p->uid) == 2 && job == p->job_id;
}

static int by_end(const void *a, const void *b)
{
    const struct dp_past *x = a, *y = b;

    return (x->end_ms > y->end_ms) - (x->end_ms < y->end_ms);
}

static void index_work(const void *request, int fd)
{
    struct dp_past_list h = {0};
    struct dp_past p;
    struct dirent *e;
    DIR *dir = opendir(request);

    while (dir && (e = readdir(dir)))
        if (parse_name(e->d_name, &p) && read_owner(dirfd(dir), e->d_name, &p) && add(&h, &p) < 0)
            goto out;
    if (h.n > 1)
        qsort(h.past, h.n, sizeof *h.past, by_end);
    dp_child_write(fd, (const uint8_t *)h.past, h.n * sizeof *h.past);
    dp_child_write(fd, (const uint8_t *)"", 1); /* that was all */
out:
    free(h.past);
    if (dir)
        closedir(dir);
}

/* What was found, then what ended since. */
static void take_index(struct dp_past_list *h, const uint8_t *result, size_t n)
{
    struct dp_past_list old = *h;
    struct dp_past p;

    h->past = NULL;
    h->n = h->cap = 0;
    for (size_t i = 0; i < n; i++) {
        memcpy(&p, result + i * sizeof p, sizeof p);
        if (!find_same(&old, &p) && add(h, &p) < 0)
            break;
    }
    for (size_t i = 0; i < old.n; i++)
        if (add(h, &old.past[i]) < 0)
            break;
    free(old.past);
}

static void on_indexed(void *arg, const uint8_t *result, size_t bytes, const char *why)
{
    struct dp_daemon *d = arg;

    d->history->indexer = NULL;
    if (result && bytes % sizeof(struct dp_past) == 1)
        take_index(d->history, result, bytes / sizeof(struct dp_past));
    else
        dp_error("reports of finished runs cannot be listed: %s", result ? "the helper process died" : why);
}

int dp_history_open(struct dp_daemon *d, struct dp_err *err)
{
    char folder[300];

    folder_of(d, folder, sizeof folder);
    d->history = calloc(1, sizeof *d->history);
    if (!d->history)
        return dp_err_set(err, DP_ENOMEM, "out of memory");
    d->history->indexer = dp_helper_start_writer(d->base, index_work, folder, INDEX_MAX_BYTES, INDEX_DEADLINE_S, on_indexed,
                                                 d, err);
    return d->history->indexer ? 0 : -1;
}

void dp_history_close(struct dp_daemon *d)
{
    struct dp_past_list *h = d->history;

    if (!h)
        return;
    dp_helper_cancel(h->indexer);
    while (h->savings) {
        struct saving *s = h->savings;

        h->savings = s->next;
        dp_helper_leave(s->helper);
        free(s);
    }
    free(h->past);
    free(h);
    d->history = NULL;
}

bool dp_history_is_ready(const struct dp_daemon *d)
{
    return d->history && !d->history->indexer;
}

/* ---- write one ---- */

static json_t *document(const struct dp_run *run)
{
    uint64_t now_ns = dp_now_ns();
    json_t *status = dp_coord_json(run->coord, now_ns, DP_QUERY_STATUS);
    json_t *explain = dp_coord_json(run->coord, now_ns, DP_QUERY_EXPLAIN);
    json_t *report = dp_coord_json(run->coord, now_ns, DP_QUERY_REPORT);

    return json_pack("{s:I, s:I, s:I, s:o?, s:o?, s:o?}", "job_id", (json_int_t)run->job_id, "uid",
                     (json_int_t)run->uid, "ended_s", (json_int_t)(dp_wall_ns() / DP_SECOND_NS), "status", status,
                     "explain", explain, "report", report);
}

static void save_work(const void *request, int fd)
{
    char path[400], tmp[410];
    const struct dp_run *run;
    struct dp_past p;
    json_t *doc;
    int file;

    memcpy(&run, request, sizeof run);
    memcpy(&p, (const uint8_t *)request + sizeof run, sizeof p);
    signal(SIGTERM, SIG_IGN); /* the end of the service need not lose it */
    path_of(run->daemon, &p, path, sizeof path);
    snprintf(tmp, sizeof tmp, "%s.tmp", path);
    doc = document(run);
    file = doc ? open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (file >= 0 && json_dumpfd(doc, file, JSON_COMPACT) == 0 && fsync(file) == 0 && rename(tmp, path) == 0) {
        dp_child_write(fd, (const uint8_t *)"", 1);
    } else {
        dp_child_write(fd, (const uint8_t *)strerror(errno), strlen(strerror(errno)) + 1);
        if (file >= 0)
            unlink(tmp);
    }
    json_decref(doc);
    if (file >= 0)
        close(file);
}

static void on_saved(void *arg, const uint8_t *result, size_t bytes, const char *why)
{
    struct saving *s = arg, **at = &s->daemon->history->savings;
    struct dp_past *p = find_same(s->daemon->history, &s->past);
    bool is_kept = result && bytes == 1;

    if (result && !is_kept)
        why = result[bytes - 1] ? "?" : (const char *)result;
    if (!is_kept) {
        dp_error("job=%u its report could not be kept in %s/history: %s", s->past.job_id, s->daemon->config->state_dir, why);
        drop(s->daemon->history, &s->past);
    } else if (p) {
        p->is_writing = false;
    }
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    free(s);
}

/* One user's reports do not fill the disk. */
static void make_room(struct dp_daemon *d, uint32_t uid)
{
    struct dp_past_list *h = d->history;
    struct dp_past oldest = {0};
    uint32_t n = 0;
    char path[400];

    for (size_t i = 0; i < h->n; i++)
        if (h->past[i].uid == uid && n++ == 0)
            oldest = h->past[i];
    if (n < DP_HISTORY_OF_USER)
        return;
    path_of(d, &oldest, path, sizeof path);
    unlink(path);
    drop(h, &oldest);
}

void dp_history_save(const struct dp_run *run)
{
    struct dp_daemon *d = run->daemon;
    struct saving *s = calloc(1, sizeof *s);
    uint8_t request[sizeof run + sizeof s->past];
    struct dp_err err = {0};

    if (!s) {
        dp_error("job=%u its report is lost: out of memory", run->job_id);
        return;
    }
    make_room(d, run->uid);
    s->daemon = d;
    s->past = (struct dp_past){run->job_id, run->job.restart_count, run->uid, true, dp_wall_ns() / 1000000};
    memcpy(request, &run, sizeof run);
    memcpy(request + sizeof run, &s->past, sizeof s->past);
    s->helper = dp_helper_start_writer(d->base, save_work, request, DP_HELPER_RESULT_MAX, SAVE_DEADLINE_S, on_saved, s, &err);
    if (!s->helper || add(d->history, &s->past) < 0) {
        dp_error("job=%u its report is lost: %s", run->job_id, s->helper ? "out of memory" : err.text);
        dp_helper_leave(s->helper);
        free(s);
        return;
    }
    s->next = d->history->savings;
    d->history->savings = s;
}

/* ---- read them, in a child ---- */

json_t *dp_history_load(const struct dp_daemon *d, const struct dp_past *past)
{
    char path[400];

    path_of(d, past, path, sizeof path);
    for (int ms = 0; past->is_writing && ms < WRITING_MS && access(path, F_OK) < 0; ms += 20)
        poll(NULL, 0, 20);
    return json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
}

json_t *dp_history_list(const struct dp_daemon *d, uid_t uid)
{
    json_t *list = json_array();

    for (size_t i = 0; i < d->history->n; i++) {
        const struct dp_past *p = &d->history->past[i];

        if (uid == 0 || uid == p->uid)
            json_array_append_new(list, json_pack("{s:I, s:I, s:s, s:I}", "job_id", (json_int_t)p->job_id, "uid",
                                                  (json_int_t)p->uid, "state", "finished", "ended_s",
                                                  (json_int_t)(p->end_ms / 1000)));
    }
    return list;
}

/* ---- remove them ---- */

/* The journal of a coordinator: whose, and when something was written last. */
static bool find_journal(DIR *dir, const char *name, unsigned *job, uint64_t *written_ms)
{
    unsigned restart;
    struct stat st;
    int used = 0;

    if (sscanf(name, "job-%u.%u.journal%n", job, &restart, &used) != 2 || used <= 0 || name[used] ||
        fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_mtime < 0)
        return false;
    *written_ms = (uint64_t)st.st_mtime * 1000;
    return true;
}

static uint64_t newest_ms(const struct dp_daemon *d)
{
    const struct dp_past_list *h = d->history;
    uint64_t newest = h->n ? h->past[h->n - 1].end_ms : 0, written_ms;
    DIR *dir = opendir(d->config->state_dir);
    const struct dirent *e;
    unsigned job;

    while (dir && (e = readdir(dir)))
        if (find_journal(dir, e->d_name, &job, &written_ms) && written_ms > newest)
            newest = written_ms;
    if (dir)
        closedir(dir);
    return newest;
}

/* What was written before is old. */
static uint64_t old_before_ms(const struct dp_daemon *d)
{
    uint64_t keep_ms = (uint64_t)(d->config->history_hours * 3.6e6), wall_ms = dp_wall_ns() / DP_MS_NS, now_ms;
    struct dp_keep_clock *clock = &d->history->clock;

    if (!clock->is_started)
        dp_keep_clock_start(clock, newest_ms(d), wall_ms, dp_now_ns());
    now_ms = dp_keep_clock_ms(clock, keep_ms, wall_ms, dp_now_ns());
    return now_ms > keep_ms ? now_ms - keep_ms : 0;
}

void dp_history_tick(struct dp_daemon *d)
{
    struct dp_past_list *h = d->history;
    uint64_t old_ms;
    char path[400];
    size_t n = 0;

    if (!dp_history_is_ready(d))
        return;
    old_ms = old_before_ms(d);
    while (n < h->n && n < PER_TICK && h->past[n].end_ms < old_ms) {
        path_of(d, &h->past[n++], path, sizeof path);
        unlink(path);
    }
    if (!n)
        return;
    memmove(h->past, h->past + n, (h->n - n) * sizeof *h->past);
    h->n -= n;
}

void dp_history_prune_journals(const struct dp_daemon *d)
{
    DIR *dir = dp_history_is_ready(d) ? opendir(d->config->state_dir) : NULL;
    uint64_t old_ms = dir ? old_before_ms(d) : 0, written_ms;
    const struct dirent *e;
    unsigned job;

    while (dir && (e = readdir(dir)))
        if (find_journal(dir, e->d_name, &job, &written_ms) && written_ms < old_ms && !dp_run_find(d, job))
            unlinkat(dirfd(dir), e->d_name, 0);
    if (dir)
        closedir(dir);
}
