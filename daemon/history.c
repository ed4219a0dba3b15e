/* Reports of finished runs: state_dir/history/job-<id>.<restart>.<end>.json, kept for history_hours.
 * Written to a temporary name and renamed, so a reader never sees half of one. */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/run.h"

#define SECOND_NS UINT64_C(1000000000)

static void folder_of(const struct dp_daemon *d, char *out, size_t cap)
{
    snprintf(out, cap, "%s/history", d->config->state_dir);
}

static json_t *document(const struct dp_run *run)
{
    uint64_t now_ns = dp_now_ns();
    json_t *status = dp_coord_json(run->coord, now_ns, DP_QUERY_STATUS);
    json_t *explain = dp_coord_json(run->coord, now_ns, DP_QUERY_EXPLAIN);
    json_t *report = dp_coord_json(run->coord, now_ns, DP_QUERY_REPORT);

    return json_pack("{s:I, s:I, s:I, s:o?, s:o?, s:o?}", "job_id", (json_int_t)run->job_id, "uid",
                     (json_int_t)run->uid, "ended_s", (json_int_t)(dp_wall_ns() / SECOND_NS), "status", status,
                     "explain", explain, "report", report);
}

void dp_history_save(const struct dp_run *run)
{
    char folder[300], path[400], tmp[410];
    json_t *doc = document(run);
    int fd, rc;

    folder_of(run->daemon, folder, sizeof folder);
    snprintf(path, sizeof path, "%s/job-%u.%u.%llu.json", folder, run->job_id, run->job.restart_count,
             (unsigned long long)(dp_wall_ns() / 1000000));
    snprintf(tmp, sizeof tmp, "%s.tmp", path);
    fd = doc ? open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    rc = fd < 0 || json_dumpfd(doc, fd, JSON_COMPACT) < 0 || fsync(fd) < 0 ? -1 : 0;
    if (fd >= 0)
        close(fd);
    if (rc < 0 || rename(tmp, path) < 0) {
        dp_error("job=%u its report could not be kept in %s", run->job_id, folder);
        unlink(tmp);
    }
    json_decref(doc);
}

/* "job-<id>.<restart>.<end>.json". returns false for other names. */
static bool parse_name(const char *name, uint32_t *job_id, unsigned long long *end_ms)
{
    unsigned job, restart;
    int used = 0;

    if (sscanf(name, "job-%u.%u.%llu.json%n", &job, &restart, end_ms, &used) != 3 || name[used])
        return false;
    *job_id = job;
    return true;
}

static json_t *load_file(const char *folder, const char *name)
{
    char path[700];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
}

json_t *dp_history_load(const struct dp_daemon *d, uint32_t job_id)
{
    unsigned long long end_ms, best = 0;
    char folder[300], name[256] = "";
    struct dirent *e;
    uint32_t job;
    DIR *dir;

    folder_of(d, folder, sizeof folder);
    dir = opendir(folder);
    while (dir && (e = readdir(dir)))
        if (parse_name(e->d_name, &job, &end_ms) && job == job_id && end_ms >= best) {
            best = end_ms;
            snprintf(name, sizeof name, "%s", e->d_name);
        }
    if (dir)
        closedir(dir);
    return name[0] ? load_file(folder, name) : NULL;
}

json_t *dp_history_list(const struct dp_daemon *d, uid_t uid)
{
    json_t *list = json_array();
    unsigned long long end_ms;
    struct dirent *e;
    char folder[300];
    uint32_t job;
    DIR *dir;

    folder_of(d, folder, sizeof folder);
    dir = opendir(folder);
    while (dir && (e = readdir(dir))) {
        json_t *doc = parse_name(e->d_name, &job, &end_ms) ? load_file(folder, e->d_name) : NULL;
        json_int_t owner = doc ? json_integer_value(json_object_get(doc, "uid")) : -1;

        if (doc && (uid == 0 || (json_int_t)uid == owner))
            json_array_append_new(list, json_pack("{s:I, s:I, s:s, s:I}", "job_id", (json_int_t)job, "uid", owner,
                                                  "state", "finished", "ended_s", (json_int_t)(end_ms / 1000)));
        json_decref(doc);
    }
    if (dir)
        closedir(dir);
    return list;
}

/* Journals of jobs that nobody knows any more (Slurm had forgotten the job when we came back). */
static void prune_journals(const struct dp_daemon *d)
{
    DIR *dir = opendir(d->config->state_dir);
    time_t now = time(NULL);
    struct dirent *e;

    while (dir && (e = readdir(dir))) {
        unsigned job, restart;
        struct stat st;
        int used = 0;

        if (sscanf(e->d_name, "job-%u.%u.journal%n", &job, &restart, &used) == 2 && used > 0 && !e->d_name[used] &&
            !dp_run_find(d, job) && fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            difftime(now, st.st_mtime) > d->config->history_hours * 3600)
            unlinkat(dirfd(dir), e->d_name, 0);
    }
    if (dir)
        closedir(dir);
}

void dp_history_prune(const struct dp_daemon *d)
{
    unsigned long long end_ms, now_ms = dp_wall_ns() / 1000000;
    struct dirent *e;
    char folder[300];
    uint32_t job;
    DIR *dir;

    prune_journals(d);
    folder_of(d, folder, sizeof folder);
    dir = opendir(folder);
    while (dir && (e = readdir(dir)))
        if (parse_name(e->d_name, &job, &end_ms) && end_ms < now_ms &&
            (double)(now_ms - end_ms) > d->config->history_hours * 3.6e6)
            unlinkat(dirfd(dir), e->d_name, 0);
    if (dir)
        closedir(dir);
}
