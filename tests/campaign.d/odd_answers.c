/* SPDX-License-Identifier: BSD-3-Clause */
/* A slurmctld whose answers get lost, for one daemon: loaded before it (LD_PRELOAD), this stands between the children with which a
 * daemon asks Slurm and libslurm. What is done stands in the file $DP_FAULTS/$DP_FAULTS_NODE.answers, for as long as it is there:
 *
 *   lost    slurmctld does what it is asked, and the asker hears of a broken connection instead of the answer
 *   twice   slurmctld is asked twice, as by a network that says everything again; the asker hears the second answer
 *   late    the answer comes LATE_MS later
 *
 * What was done is added to that file, a letter a call, so that who wrote it sees whether anything was.
 */
#define _GNU_SOURCE
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LATE_MS 1500 /* longer than a daemon's poll in the campaign, shorter than its patience with a child */

/* As common/slurm/libslurm.c: which job. */
#if HAVE_SLURM_JOB_BY_STEP_ID
typedef slurm_step_id_t job_key;
#else
typedef uint32_t job_key;
#endif

enum fault { NONE, LOST, TWICE, LATE };

static char path[256]; /* kept: a child that asks Slurm empties its environment */

__attribute__((constructor)) static void begin(void)
{
    const char *folder = getenv("DP_FAULTS"), *node = getenv("DP_FAULTS_NODE");

    if (folder && node)
        snprintf(path, sizeof path, "%s/%s.answers", folder, node);
}

/* What is to be done now; said in the file. */
static enum fault fault_now(void)
{
    static const char *const name[] = {"", "lost", "twice", "late"};
    int fd = path[0] ? open(path, O_RDWR | O_APPEND | O_CLOEXEC) : -1;
    enum fault f = LATE;
    char text[16] = "";

    if (fd < 0)
        return NONE;
    if (read(fd, text, sizeof text - 1) <= 0)
        text[0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    while (f != NONE && strcmp(text, name[f]) != 0)
        f--;
    if (f != NONE && write(fd, "x", 1) != 1)
        f = NONE;
    close(fd);
    return f;
}

static int broken(void)
{
    errno = SLURM_COMMUNICATIONS_RECEIVE_ERROR;
    return SLURM_ERROR;
}

/* A call's answer is late: and is what it was. returns rc. */
static int late(int rc)
{
    struct timespec t = {.tv_sec = LATE_MS / 1000, .tv_nsec = LATE_MS % 1000 * 1000000L};
    int error = errno;

    nanosleep(&t, NULL);
    errno = error;
    return rc;
}

static void *real(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);

    if (!f)
        abort();
    return f;
}

/* The rest of a call that the fault f is done to: `call` is made again, `drop` frees the answer that gets lost. */
#define SPOIL(f, rc, call, drop)       \
    do {                               \
        if ((f) == TWICE) {            \
            if ((rc) == SLURM_SUCCESS) { drop; } \
            (rc) = (call);             \
        } else if ((f) == LOST) {      \
            if ((rc) == SLURM_SUCCESS) { drop; } \
            (rc) = broken();           \
        } else if ((f) == LATE) {      \
            (rc) = late(rc);           \
        }                              \
    } while (0)

int slurm_load_job(job_info_msg_t **out, job_key job, uint16_t flags)
{
    __typeof__(slurm_load_job) *call = (__typeof__(slurm_load_job) *)real("slurm_load_job");
    enum fault f = fault_now();
    int rc = call(out, job, flags);

    SPOIL(f, rc, call(out, job, flags), slurm_free_job_info_msg(*out); *out = NULL);
    return rc;
}

int slurm_load_job_user(job_info_msg_t **out, uint32_t uid, uint16_t flags)
{
    __typeof__(slurm_load_job_user) *call = (__typeof__(slurm_load_job_user) *)real("slurm_load_job_user");
    enum fault f = fault_now();
    int rc = call(out, uid, flags);

    SPOIL(f, rc, call(out, uid, flags), slurm_free_job_info_msg(*out); *out = NULL);
    return rc;
}

int slurm_update_job(job_desc_msg_t *update)
{
    __typeof__(slurm_update_job) *call = (__typeof__(slurm_update_job) *)real("slurm_update_job");
    enum fault f = fault_now();
    int rc = call(update);

    SPOIL(f, rc, call(update), (void)0);
    return rc;
}

int slurm_kill_job(job_key job, uint16_t signal, uint16_t flags)
{
    __typeof__(slurm_kill_job) *call = (__typeof__(slurm_kill_job) *)real("slurm_kill_job");
    enum fault f = fault_now();
    int rc = call(job, signal, flags);

    SPOIL(f, rc, call(job, signal, flags), (void)0);
    return rc;
}

int slurm_requeue(job_key job, uint32_t flags)
{
    __typeof__(slurm_requeue) *call = (__typeof__(slurm_requeue) *)real("slurm_requeue");
    enum fault f = fault_now();
    int rc = call(job, flags);

    SPOIL(f, rc, call(job, flags), (void)0);
    return rc;
}

int slurm_submit_batch_job(job_desc_msg_t *wanted, submit_response_msg_t **out)
{
    __typeof__(slurm_submit_batch_job) *call = (__typeof__(slurm_submit_batch_job) *)real("slurm_submit_batch_job");
    enum fault f = fault_now();
    int rc = call(wanted, out);

    SPOIL(f, rc, call(wanted, out), slurm_free_submit_response_response_msg(*out); *out = NULL);
    return rc;
}
