/* SPDX-License-Identifier: BSD-3-Clause */
/* Journals of the daemons of daemon_world.h: real files, but a daemon can be killed at each record, before or after it
 * is there, and a disk can fail. What becomes durable is noted for the invariants. What is called __wrap_X is called
 * in the place of X. */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "daemon/coord/coordinator.h"
#include "tests/unit/daemon/daemon_world.h"

enum { JOURNALS = 16 };

static struct {
    const struct dp_journal *journal;
    bool is_run;
} opened[JOURNALS];

struct dp_journal *__real_dp_journal_open(const char *path, dp_journal_fn replay, dp_journal_fill_fn fill, void *arg,
                                          struct dp_err *err);
struct dp_journal *__wrap_dp_journal_open(const char *path, dp_journal_fn replay, dp_journal_fill_fn fill, void *arg,
                                          struct dp_err *err);
void __real_dp_journal_destroy(struct dp_journal *j);
void __wrap_dp_journal_destroy(struct dp_journal *j);
enum dp_journal_fate __real_dp_journal_append(struct dp_journal *j, uint8_t type, const void *payload, size_t bytes,
                                              struct dp_err *err);
enum dp_journal_fate __wrap_dp_journal_append(struct dp_journal *j, uint8_t type, const void *payload, size_t bytes,
                                              struct dp_err *err);
int __real_dp_coord_replay(struct dp_coord *c, enum dp_record type, const void *payload, size_t bytes, struct dp_err *err);
int __wrap_dp_coord_replay(struct dp_coord *c, enum dp_record type, const void *payload, size_t bytes, struct dp_err *err);
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __real_unlink(const char *path);
int __wrap_unlink(const char *path);

static bool is_disk_dead(void)
{
    return dw_is_on && dw.current && dw.now_ns < dw.current->disk_dead_until_ns;
}

int __wrap_fdatasync(int fd)
{
    if (!is_disk_dead())
        return __real_fdatasync(fd);
    errno = EIO;
    return -1;
}

/* Who was killed removes nothing any more. */
int __wrap_unlink(const char *path)
{
    return dw_is_on && dw.current && dw.current->is_dead ? 0 : __real_unlink(path);
}

struct dp_journal *__wrap_dp_journal_open(const char *path, dp_journal_fn replay, dp_journal_fill_fn fill, void *arg,
                                          struct dp_err *err)
{
    struct dp_journal *j = __real_dp_journal_open(path, replay, fill, arg, err);

    if (!j && !is_disk_dead() && !(dw.current && dw.current->is_dead))
        dw_broken_for_all(err->text, 0, 0);
    for (size_t i = 0; j && i < JOURNALS; i++)
        if (!opened[i].journal) {
            opened[i].journal = j;
            opened[i].is_run = strstr(path, "/job-") != NULL;
            break;
        }
    return j;
}

void __wrap_dp_journal_destroy(struct dp_journal *j)
{
    for (size_t i = 0; j && i < JOURNALS; i++)
        if (opened[i].journal == j)
            opened[i].journal = NULL;
    __real_dp_journal_destroy(j);
}

static uint64_t be(const uint8_t *p, int n)
{
    uint64_t v = 0;

    while (n--)
        v = v << 8 | *p++;
    return v;
}

static void note_record(bool is_run, uint8_t type, const uint8_t *payload)
{
    enum { NODE_FENCE = 2 }; /* node_journal.c */

    if (!is_run) {
        dw.current->is_fenced |= type == NODE_FENCE && be(payload + 4, 4) == dw.slurm.restart_count;
        return;
    }
    if (type == DP_REC_COMMIT)
        dw.decided[be(payload, 8) % 64] = 1;
    dw.n_commits += type == DP_REC_COMMIT;
    dw.n_aborts += type == DP_REC_ABORT;
    dw.n_released += type == DP_REC_RELEASED;
}

static void die_here(void)
{
    dw.current->is_dead = true;
    dw.n_crashes++;
    event_base_loopbreak(dw.current->d.base);
}

/* A daemon may die while a journal is written anew: within a record, or before or after the new file has its name. */
static bool dies_within(void)
{
    if (dw.current->is_dead || !dw_chance(dw.crash_percent))
        return false;
    dw.n_half++;
    die_here();
    return true;
}

int __wrap_rename(const char *from, const char *to)
{
    int rc;

    if (!dw_is_on || !dw.current || !strstr(to, ".journal"))
        return __real_rename(from, to);
    if (dw.current->is_dead || dies_within()) {
        errno = EIO;
        return -1;
    }
    rc = __real_rename(from, to);
    dw.n_renewed++;
    (void)dies_within();
    return rc;
}

enum dp_journal_fate __wrap_dp_journal_append(struct dp_journal *j, uint8_t type, const void *payload, size_t bytes,
                                              struct dp_err *err)
{
    enum dp_journal_fate fate = DP_JOURNAL_DOUBTFUL;
    bool is_killed = !dw.current->is_dead && dw_chance(dw.crash_percent), is_before = is_killed && dw_draw(2);
    size_t i = 0;

    while (i < JOURNALS && opened[i].journal != j)
        i++;
    dp_err_set(err, DP_EIO, "killed");
    if (i == JOURNALS && !dw.current->is_dead && !dies_within())
        return __real_dp_journal_append(j, type, payload, bytes, err); /* a journal is written anew */
    if (i < JOURNALS && !dw.current->is_dead && dw_chance(dw.crash_percent))
        (void)dp_journal_compact(j, NULL);
    if (dw.current->is_dead)
        return DP_JOURNAL_ABSENT;
    if (!is_before)
        fate = __real_dp_journal_append(j, type, payload, bytes, err);
    if (fate == DP_JOURNAL_DURABLE)
        note_record(opened[i].is_run, type, payload);
    if (is_killed)
        die_here();
    return is_killed ? DP_JOURNAL_DOUBTFUL : fate;
}

/* What a restart finds counts, also what was in doubt before. */
int __wrap_dp_coord_replay(struct dp_coord *c, enum dp_record type, const void *payload, size_t bytes, struct dp_err *err)
{
    int rc = __real_dp_coord_replay(c, type, payload, bytes, err);

    if (rc < 0)
        dw_broken_for_all("a record cannot be replayed", type, bytes);
    if (type == DP_REC_COMMIT && bytes >= 8)
        dw.decided[be(payload, 8) % 64] = 1;
    return rc;
}
